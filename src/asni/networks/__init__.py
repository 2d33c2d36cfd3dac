"""Networks by name: the paper's, and a user's own by import path."""

from asni.networks.building import NETWORKS, build, check_output
from asni.networks.initial import initialise, reset_biases_and_norms

__all__ = ["NETWORKS", "build", "check_output", "initialise", "reset_biases_and_norms"]
