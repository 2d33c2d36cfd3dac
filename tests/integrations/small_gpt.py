"""A small GPT-2, a smaller Mixtral and their data, as a user of transformers builds them from a config."""

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, MixtralConfig, MixtralForCausalLM

VOCABULARY, LENGTH = 50, 8
PRUNABLE = 24_576  # two blocks of 32*96 + 32*32 + 32*128 + 128*32: the Conv1D layers, not the tied embedding
TENTH = 2_458


def small_gpt(seed: int = 0) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=32,
            n_layer=2,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def small_mixture() -> MixtralForCausalLM:
    """A Mixtral of one block with four experts."""
    torch.manual_seed(0)
    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=VOCABULARY,
            max_position_embeddings=LENGTH,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            num_local_experts=4,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


class Sentences(Dataset[dict[str, Tensor]]):
    """Sentence `n` is always the same."""

    def __init__(self, sentences: int):
        self.sentences = sentences

    def __len__(self) -> int:
        return self.sentences

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.randint(VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def block_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of the blocks' layers, which the pruners prune."""
    return {
        name: weight.detach().clone()
        for name, weight in model.named_parameters()
        if ".h." in name and weight.dim() == 2
    }


def alive(model: nn.Module) -> int:
    return sum(int((weight != 0).sum()) for weight in block_weights(model).values())


def assert_equal_bits(model: nn.Module, other: nn.Module) -> None:
    expected = other.state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected[name]), name
