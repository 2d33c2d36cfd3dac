"""From a model to the steps of its training, by way of torch.export."""
