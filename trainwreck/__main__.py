"""`python -m trainwreck`."""

from trainwreck.cli import main

if __name__ == "__main__":
    main()
