"""The server side: what a round asks for, how replies are merged, what it cost."""
