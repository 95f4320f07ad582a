"""Looking inside trained models: what their first kernels and their units respond to."""
