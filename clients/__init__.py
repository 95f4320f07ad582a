"""The device side: the NumPyClient, local training, model <-> arrays, and the wire format."""
