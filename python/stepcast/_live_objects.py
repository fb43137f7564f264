"""Scenarios from what a training program holds: written as the file of its framework, and read as that.

What a setting means is known to the readers of `stepcast import` alone.
"""

import argparse
import dataclasses
import enum
import json
import math
import os
import pathlib
import tempfile

from ._module_shape import model_of_module
from ._stepcast import import_job


def _read(kind, name, text, beside=None, model_file="", **known):
    """The scenario of a job's file with this text; `beside`: texts of files that lie beside it, of
    which one may be the model's."""
    with tempfile.TemporaryDirectory(prefix="stepcast-") as folder:
        folder = pathlib.Path(folder)
        for path, content in (beside or {}).items():
            (folder / path).write_text(content)
        (folder / name).write_text(text)
        if model_file:
            known.update(model=folder / model_file, model_inside=True)
        return import_job(kind, folder / name, **known)


def _mapping(live, what):
    """The settings of a live object as a dict."""
    if isinstance(live, dict):
        return live
    if callable(getattr(live, "to_dict", None)):
        return live.to_dict()
    if dataclasses.is_dataclass(live) and not isinstance(live, type):
        return dataclasses.asdict(live)
    if hasattr(live, "__dict__"):
        return vars(live)
    raise TypeError(f"{what} is a {type(live).__name__}; allowed: an object with to_dict(), a "
                    "dataclass, a namespace, a dict")


def _world_size(gpus):
    return gpus or int(os.environ.get("WORLD_SIZE", "0"))


def from_megatron(args, *, cluster, gpus=0, model="", overrides=None):
    """The scenario of Megatron-LM's arguments: what `get_args()` returns."""
    lines = ["------------------------ arguments ------------------------"]
    for name, value in sorted(_mapping(args, "args").items()):
        if isinstance(value, enum.Enum):
            value = f"{type(value).__name__}.{value.name}"
        lines.append(f"  {name} {'.' * max(48 - len(name), 3)} {' '.join(str(value).split())}")
    lines.append("-------------------- end of arguments ---------------------")
    return _read("megatron", "megatron.log", "\n".join(lines) + "\n", cluster=cluster,
                 gpus=_world_size(gpus), model=model, overrides=overrides)


def _toml_value(value, where):
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else ("nan" if math.isnan(value) else f"{value:+}")
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(entry, where) for entry in value) + "]"
    raise ValueError(f"{where} is a {type(value).__name__}; allowed: a bool, a number, a text, a list "
                     "of these, a section")


def _toml(settings, path=()):
    """The text of a table; what is None is left out."""
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    lines = ["[" + ".".join(json.dumps(key) for key in path) + "]"] if path else []
    for key, value in settings.items():
        if value is not None and key not in tables:
            lines.append(f"{json.dumps(key)} = {_toml_value(value, '.'.join((*path, key)))}")
    for key, table in tables.items():
        lines.append(_toml(table, (*path, key)))
    return "\n".join(lines)


def from_torchtitan(config, *, cluster, gpus=0, model="", overrides=None):
    """The scenario of torchtitan's JobConfig, or of a dict with its sections."""
    return _read("torchtitan", "torchtitan.toml", _toml(_mapping(config, "config")) + "\n",
                 cluster=cluster, gpus=_world_size(gpus), model=model, overrides=overrides)


def _plain(value):
    """As JSON has it: words of enumerations, paths and types as texts."""
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple, set)):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _trainer_settings(arguments):
    """The arguments of a trainer as its file has them, and the files that lie beside it."""
    settings = _plain(_mapping(arguments, "training_arguments"))
    if isinstance(settings.get("fsdp"), list):
        settings["fsdp"] = " ".join(settings["fsdp"])
    for key in ("fsdp", "fsdp_config", "deepspeed", "parallelism_config", "accelerator_config"):
        if not settings.get(key) or (key == "fsdp_config" and not settings.get("fsdp")):
            settings.pop(key, None)
    beside = {}
    if isinstance(settings.get("deepspeed"), dict):
        beside["deepspeed.json"] = json.dumps(settings["deepspeed"])
        settings["deepspeed"] = "deepspeed.json"
    return settings, beside


def _adapter_settings(model):
    """Low-rank adapters of a model of peft; nothing of others."""
    adapters = getattr(model, "peft_config", None)
    if not isinstance(adapters, dict) or not adapters:
        return {}
    adapter = _plain(_mapping(next(iter(adapters.values())), "peft_config"))
    return {"use_peft": True, "lora_r": adapter.get("r"),
            "lora_target_modules": adapter.get("target_modules")}


def from_hf(model_or_config, training_arguments, *, cluster, gpus=0, sequence_length=0,
            overrides=None):
    """The scenario of a model of Hugging Face's transformers, or its configuration, that a Trainer
    trains with these TrainingArguments. `sequence_length`: tokens, where the arguments do not say."""
    settings, beside = _trainer_settings(training_arguments)
    settings.update(_adapter_settings(model_or_config))
    dtype = getattr(model_or_config, "dtype", None)
    if dtype is not None:
        settings["torch_dtype"] = str(dtype).removeprefix("torch.")
    config = getattr(model_or_config, "config", model_or_config)
    beside["config.json"] = json.dumps(_plain(_mapping(config, "model_or_config")))
    gpus = gpus or int(getattr(training_arguments, "world_size", 0) or 0)
    return _read("accelerate", "trainer.yaml", json.dumps(settings, indent=1), beside,
                 model_file="config.json", cluster=cluster, gpus=_world_size(gpus),
                 sequence_length=sequence_length, overrides=overrides)


STRATEGIES = {"ddp": {}, "fsdp": {"fsdp": "full_shard auto_wrap"},
              "fsdp2": {"fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 2}}}


def from_torch(module, *, cluster, micro_batch, sequence_length, gpus=0, accumulation_steps=1,
               strategy="ddp", precision="bf16", heads=0, recompute=False, compiled=False,
               overrides=None):
    """The scenario of a transformer in PyTorch, by the shapes of its parameters.

    `heads`: of attention, where no attribute of a submodule says it. `strategy`: ddp, fsdp or fsdp2.
    `precision`: of mixed precision; fp32: none.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is '{strategy}'; allowed: {', '.join(STRATEGIES)}")
    if precision not in ("bf16", "fp16", "fp32"):
        raise ValueError(f"precision is '{precision}'; allowed: bf16, fp16, fp32")
    settings = {"per_device_train_batch_size": micro_batch,
                "gradient_accumulation_steps": accumulation_steps,
                "gradient_checkpointing": recompute, "torch_compile": compiled,
                "bf16": precision == "bf16", "fp16": precision == "fp16", **STRATEGIES[strategy]}
    model = model_of_module(module, heads=heads, sequence_length=sequence_length)
    return _read("accelerate", "module.yaml", json.dumps(settings, indent=1),
                 {"module-model.yaml": json.dumps(model, indent=1)}, model_file="module-model.yaml",
                 cluster=cluster, gpus=_world_size(gpus), sequence_length=sequence_length,
                 overrides=overrides)


def scenario_of(live, **job):
    """A scenario as `forecast` takes it, from that, from a function that makes it, or from a live
    object of Megatron-LM or torchtitan with the arguments of from_megatron and from_torchtitan."""
    if callable(live):
        return live(**job)
    if isinstance(live, argparse.Namespace):
        return from_megatron(live, **job)
    if dataclasses.is_dataclass(live):
        return from_torchtitan(live, **job)
    if job:
        raise TypeError(f"{', '.join(job)}: of arguments of a framework, not of a scenario")
    return live
