"""The engine beside other runtimes, in one process and with the same results: what `asni bench` shows."""
