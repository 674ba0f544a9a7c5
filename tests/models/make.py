"""Writes the fixtures of tests/language_models_test.py and tests/encoder_models_test.py with transformers: small models with
random weights, and the logits of decoders, and the states of encoders.

    python3 tests/models/make.py [FAMILY ...]

Weights are scaled so that logits lie apart; biases and the weights of norms are random, too, so that each is seen.
"""

import os
import sys

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY, STOP = 80, 2
# Numbers of tokens in a cache, whose logits are kept.
PLACES = (1, 63, 64, 65, 200)
PROMPT, COMPLETION = 9, 40

COMMON = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "eos_token_id": STOP,
          "bos_token_id": 1, "pad_token_id": 0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
FAMILIES = {
    "gemma": ("Gemma", {**COMMON, "head_dim": 8}),
    "gemma2": ("Gemma2", {**COMMON, "head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 12}),
    "gemma3": ("Gemma3Text", {**COMMON, "num_hidden_layers": 6, "head_dim": 8, "sliding_window": 16,
                              "query_pre_attn_scalar": 12}),
    "gpt2": ("GPT2", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256,
                      "bos_token_id": 1, "eos_token_id": STOP}),
    "llama": ("Llama", {**COMMON, "rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", {**COMMON, "head_dim": 16, "sliding_window": 24}),
    "qwen2": ("Qwen2", {**COMMON, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
                        "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {**COMMON, "head_dim": 16}),
}


ENCODER = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
           "num_attention_heads": 4, "max_position_embeddings": 256}
# One has names with a prefix, one has layers alone.
ENCODERS = {
    "bert": ("Bert", "Model", {**ENCODER, "hidden_act": "gelu_new", "type_vocab_size": 3}),
    "distilbert": ("DistilBert", "ForMaskedLM", {"vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4,
                                                 "max_position_embeddings": 256}),
    "roberta": ("Roberta", "Model", {**ENCODER, "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1}),
}


def make_encoder(family):
    """States of the first, a middle and the last token of two texts, of which the second one is padded."""
    name, ending, settings = ENCODERS[family]
    config = getattr(transformers, name + "Config")(**settings, attn_implementation="eager")
    model = getattr(transformers, name + ending)(config).eval()
    torch.manual_seed(7)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            is_scale = "norm" in key.lower() and key.endswith(".weight")
            parameter.copy_((torch.randn_like(parameter) * 0.25 + (1 if is_scale else 0)).to(torch.bfloat16))
    encoder = model if ending == "Model" else getattr(model, family)
    dice = np.random.default_rng(3)
    kept = {}
    for length in PLACES:
        tokens = dice.integers(3, VOCABULARY, (2, length))
        mask = np.arange(length) < np.array([[length], [length - length // 3]])
        tokens = np.where(mask, tokens, 1)
        given = {"input_ids": torch.tensor(tokens), "attention_mask": torch.tensor(mask.astype("int64"))}
        types = dice.integers(0, settings.get("type_vocab_size", 1), (2, length))
        if family != "distilbert":
            given["token_type_ids"] = torch.tensor(types)
        with torch.no_grad():
            result = encoder(**given)
        kept[f"tokens{length}"], kept[f"types{length}"] = tokens.astype("int32"), types.astype("int32")
        kept[f"mask{length}"] = mask
        kept[f"states{length}"] = result.last_hidden_state[:, [0, length // 2, length - 1]].numpy()
        if family != "distilbert":
            kept[f"pooled{length}"] = result.pooler_output.numpy()
    folder = os.path.join(HERE, family)
    model.to(torch.bfloat16).save_pretrained(folder)
    np.savez_compressed(os.path.join(folder, "expected.npz"), **kept)


def make(family):
    if family in ENCODERS:
        make_encoder(family)
        return
    name, settings = FAMILIES[family]
    config = getattr(transformers, name + "Config")(**settings, attn_implementation="eager")
    ending = "LMHeadModel" if family == "gpt2" else "ForCausalLM"
    model = getattr(transformers, name.removesuffix("Text") + ending)(config).eval()
    torch.manual_seed(7)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                # Scaled embeddings would outweigh what the layers add to them.
                is_scaled = family.startswith("gemma") and "embed" in key
                parameter.copy_(torch.randn_like(parameter) * (0.04 if is_scaled else 0.25))
            else:
                is_scale = key.endswith(".weight") and not family.startswith("gemma")
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (1 if is_scale else 0))
    # Weights in bfloat16, but for one family. Not so the frequencies of rotations, which conversions would round.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    tokens = np.random.default_rng(3).integers(3, VOCABULARY, 200)
    with torch.no_grad():
        logits = model(torch.tensor(tokens[None])).logits[0].numpy()
        text = model.generate(torch.tensor(tokens[None, :PROMPT]), max_new_tokens=COMPLETION, do_sample=False)
    folder = os.path.join(HERE, family)
    saved = model if family == "gpt2" else model.to(torch.bfloat16)
    saved.save_pretrained(folder, max_shard_size="20KB" if family == "qwen3" else "1GB")  # one in several files
    completion = text[0, PROMPT:].tolist()
    completion = completion[:completion.index(STOP)] if STOP in completion else completion
    np.savez_compressed(os.path.join(folder, "expected.npz"), tokens=tokens.astype("int32"),
                        logits=logits[[place - 1 for place in PLACES]].astype("float32"),
                        completion=np.array(completion, "int32"))
    print(family, "completion:", len(set(completion)), "of", len(completion), "tokens differ")


if __name__ == "__main__":
    for given in sys.argv[1:] or [*FAMILIES, *ENCODERS]:
        make(given)
