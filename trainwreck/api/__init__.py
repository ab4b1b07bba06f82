"""What the commands do, as functions: each calls what its command calls, without output to the terminal.

Data sets are given open (`load`), as folders, or as "sample". Bad input is an InputError.
"""
