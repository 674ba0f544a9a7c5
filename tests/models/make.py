"""Writes the fixtures of tests/language_models_test.py, tests/encoder_models_test.py and tests/encoder_decoder_models_test.py
with transformers: small models with random weights, the logits and texts of decoders, and the states of encoders.

    python3 tests/models/make.py [FAMILY | timestamps ...]

Weights are scaled so that logits lie apart; biases and the weights of norms are random, too, so that each is seen.
"""

import json
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


BART = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": STOP, "decoder_start_token_id": 0, "forced_eos_token_id": None}
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
      "eos_token_id": STOP, "decoder_start_token_id": 0}
FRAMES = 100
# The number of layers of one's stacks differ; one forces a first token, one does not choose some tokens.
ENCODER_DECODERS = {
    "bart": ("BartForConditionalGeneration", {**BART, "max_position_embeddings": 256}),
    "flan_t5": ("T5ForConditionalGeneration", {**T5, "num_layers": 3, "num_decoder_layers": 2, "d_kv": 12, "feed_forward_proj": "gated-gelu",
                                               "tie_word_embeddings": False, "relative_attention_num_buckets": 16,
                                               "relative_attention_max_distance": 80}),
    "marian": ("MarianMTModel", {**BART, "max_position_embeddings": 256, "scale_embedding": True,
                                 "activation_function": "swish"}),
    "t5": ("T5ForConditionalGeneration", T5),
    "whisper": ("WhisperForConditionalGeneration", {**BART, "num_mel_bins": 8, "max_source_positions": FRAMES // 2,
                                                    "max_target_positions": 256, "suppress_tokens": [5, 6, 7],
                                                    "begin_suppress_tokens": [8, STOP]}),
}
# Settings for generation, beside those of the configuration.
GENERATION = {"bart": {"forced_bos_token_id": 1}, "marian": {"bad_words_ids": [[0]]}}
BEAMS = ((4, 1.0, True), (4, 0.6, False), (3, 2.0, False))  # width, penalty, early


def generated(model, source, **options):
    """The texts, without the tokens they begin with and without the one that ends them, and their scores."""
    from transformers import GenerationMixin
    result = GenerationMixin.generate(model, source, return_dict_in_generate=True, output_scores=True, **options)
    texts = [row[1:].tolist() for row in result.sequences]
    if model.generation_config.forced_bos_token_id is not None:
        texts = [text[1:] for text in texts]
    return [text[:text.index(STOP)] if STOP in text else text for text in texts], getattr(result, "sequences_scores", None)


BARTS = ("bart", "marian")  # whose norms follow the sums


def randomize(model, seed):
    """Random weights that bfloat16 has. Those of layers outweigh embeddings, so that a token does not follow itself."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if not parameter.requires_grad or (model.config.model_type == "marian" and "embed_positions" in key):
                parameter.copy_(parameter.to(torch.bfloat16))  # tables of sines
                continue
            is_scale = "norm" in key and key.endswith("weight")
            is_embedding = "shared" in key or "embed" in key
            spread = 0.3 if parameter.dim() == 1 else 0.15 if is_embedding else 0.8 if model.config.model_type in BARTS else 0.35
            parameter.copy_((torch.randn_like(parameter) * spread + is_scale).to(torch.bfloat16))
        if "final_logits_bias" in dict(model.named_buffers()):
            model.final_logits_bias.copy_(torch.randn(1, VOCABULARY).to(torch.bfloat16))


def make_encoder_decoder(family):
    """States of sources, logits behind a text, and texts: the likeliest tokens, and by beams, with their scores."""
    name, settings = ENCODER_DECODERS[family]
    ending = name.replace("ForConditionalGeneration", "").replace("MTModel", "")
    model = getattr(transformers, name)(getattr(transformers, ending + "Config")(**settings, attn_implementation="eager")).eval()
    dice = np.random.default_rng(3)
    is_speech = family == "whisper"
    sources = {length: dice.standard_normal((8, length)).astype("float32") if is_speech
                       else dice.integers(3, VOCABULARY, length).astype("int32")
               for length in ((FRAMES,) if is_speech else PLACES)}
    as_batch = lambda source: torch.tensor(source[None] if is_speech else source[None].astype("int64"))
    source = as_batch(sources[FRAMES if is_speech else 63])
    for key, given in GENERATION.get(family, {}).items():
        setattr(model.generation_config, key, given)
    starts = [0, 1] if family == "bart" else [0]
    for seed in range(1000):
        randomize(model, seed)
        (completion,), _ = generated(model, source, max_new_tokens=COMPLETION + len(starts) - 1, num_beams=1, do_sample=False)
        if len(set(completion)) < 6:
            continue
        # Only these families have all that decides on the beams of transformers (tests/encoder_decoder_models_test.py).
        beams = [generated(model, source, max_new_tokens=12, num_beams=width, length_penalty=penalty, early_stopping=early,
                           num_return_sequences=width, do_sample=False)
                 for width, penalty, early in (BEAMS if family in ("t5", "flan_t5") else ())]
        apart = min((np.diff(-scores.numpy()).min() for _, scores in beams), default=1)
        # Texts that vary, scores that lie apart, hypotheses of several lengths.
        if apart > 1e-4 and len({len(text) for texts, _ in beams for text in texts}) != 1:
            break
    kept = {"text": dice.integers(3, VOCABULARY, 199).astype("int32"), "completion": np.array(completion, "int32")}
    for i, (texts, scores) in enumerate(beams):
        kept[f"beams{i}"] = np.array([text + [-1] * (12 - len(text)) for text in texts], "int32")
        kept[f"scores{i}"] = scores.numpy()
    with torch.no_grad():
        for length, given in sources.items():
            states = model.get_encoder()(as_batch(given)).last_hidden_state[0].numpy()
            kept[f"source{length}"], kept[f"states{length}"] = given, states[[0, len(states) // 2, len(states) - 1]]
        text = torch.tensor([[*starts, *kept["text"].tolist()]])
        logits = model(**{model.main_input_name: source}, decoder_input_ids=text).logits[0].numpy()
    kept["logits"] = logits[[place + len(starts) - 2 for place in PLACES]]
    folder = os.path.join(HERE, family)
    model.to(torch.bfloat16).save_pretrained(folder)
    np.savez_compressed(os.path.join(folder, "expected.npz"), **kept)
    print(family, "seed", seed, "completion:", completion, "beams:", *(texts for texts, _ in beams))


def make_timestamps():
    """Texts of the fixture of Whisper with other settings: 50 words, tokens of a language and a task, and 20 times."""
    model = transformers.WhisperForConditionalGeneration.from_pretrained(os.path.join(HERE, "whisper"), dtype=torch.float32,
                                                                         attn_implementation="eager").eval()
    settings = {"eos_token_id": 50, "no_timestamps_token_id": 59, "max_initial_timestamp_index": 3,
                "suppress_tokens": [5, 6, 7], "begin_suppress_tokens": [8, 50]}
    for name, given in settings.items():
        setattr(model.generation_config, name, given)
    with np.load(os.path.join(HERE, "whisper", "expected.npz")) as file:
        source = file[f"source{FRAMES}"]
    begin, kept = [51, 52], {"prompts": [], "rolls": [], "texts": []}
    for said in ([], [60, 9, 10, 63], [60, 9, 63, 63], [61, 9], [9, 10], [59]):
        for special in ([], begin) if said != [59] else (begin,):
            rule = transformers.WhisperTimeStampLogitsProcessor(model.generation_config, begin_index=1 + len(special))
            prompt = [*special, *said]
            for roll in range(0, FRAMES, 20):
                features = torch.tensor(np.roll(source, roll, axis=1)[None])
                row = transformers.GenerationMixin.generate(
                    model, features, decoder_input_ids=torch.tensor([[0, *prompt]]), max_new_tokens=COMPLETION, num_beams=1,
                    do_sample=False, logits_processor=[rule] if said != [59] else [])[0].tolist()[1 + len(prompt):]
                text = row[:row.index(50)] if 50 in row else row
                for name, given in (("prompts", prompt), ("texts", text)):
                    kept[name].append([*given, *[-1] * ((8 if name == "prompts" else COMPLETION) - len(given))])
                kept["rolls"].append(roll)
                print(prompt, roll, text)
    np.savez_compressed(os.path.join(HERE, "whisper", "timestamps.npz"), settings=json.dumps(settings),
                        **{name: np.array(rows, "int32") for name, rows in kept.items()})


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
    if family == "timestamps":
        make_timestamps()
        return
    if family in ENCODERS:
        make_encoder(family)
        return
    if family in ENCODER_DECODERS:
        make_encoder_decoder(family)
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
    for given in sys.argv[1:] or [*FAMILIES, *ENCODERS, *ENCODER_DECODERS, "timestamps"]:
        make(given)
