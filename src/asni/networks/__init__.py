"""Networks by name: the paper's, and a user's own by import path.

Parameter counts are the paper's. A user's function is called with the shape and the classes of the dataset; an error in
it is reported with its file and line.
"""

from asni.networks.building import NETWORKS, build, check_output
from asni.networks.initial import initialise, reset_biases_and_norms

__all__ = ["NETWORKS", "build", "check_output", "initialise", "reset_biases_and_norms"]
