"""The web page: runs, live and finished, and the commands that steer them."""
