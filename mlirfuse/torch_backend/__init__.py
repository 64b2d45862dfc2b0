"""The parts of the backend of `torch.compile`: from a graph of aten ops to programs.

graph_compiler   compiles a graph: as one program, or in parts with PyTorch between them
partition        cuts a graph into parts that a program computes, and the ops left to PyTorch
culprits         finds the ops for which a part cannot be compiled
program          one compiled part, with AOTAutograd's calls
reports, files   what was compiled and what was left out: for Python, and as folders
"""
