"""The page and the files of a leaderboard."""
