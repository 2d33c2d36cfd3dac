"""From a model of PyTorch, an ONNX file or a packed file to a `Graph`.

`from_torch` goes by way of `torch_program` (what torch.export captures) and `aten` (its operators as those of ONNX);
`from_onnx` by way of `opsets` (old operator sets as the newest); `from_packed` by way of `graph_file` (a graph as a
packed file carries it), which packing writes. Only the first imports torch, only the second imports onnx.
"""
