"""What is learned: models, data sets and partitions. Nothing here imports the rest of the product."""
