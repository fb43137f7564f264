"""Scenarios from live objects, beside those of the files that say the same."""

import argparse
import dataclasses
import enum
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import stepcast


class AttnBackend(enum.Enum):
    auto = 5


def megatron_arguments(**changed):
    """What get_args() of Megatron-LM holds, as far as a step depends on it."""
    return argparse.Namespace(**{
        "num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32,
        "group_query_attention": True, "num_query_groups": 8, "seq_length": 8192,
        "max_position_embeddings": 8192, "padded_vocab_size": 128256, "position_embedding_type": "rope",
        "swiglu": True, "normalization": "RMSNorm", "add_bias_linear": False,
        "untie_embeddings_and_output_weights": True, "attention_dropout": 0.0, "hidden_dropout": 0.0,
        "bf16": True, "micro_batch_size": 1, "global_batch_size": 128, "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 2, "sequence_parallel": True, "use_distributed_optimizer": True,
        "attention_backend": AttnBackend.auto, "world_size": 64, "lr": 3e-4, "rope_scaling": None,
        **changed})


class Megatron(unittest.TestCase):
    FLAGS = ("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
             "--group-query-attention --num-query-groups 8 --seq-length 8192 "
             "--max-position-embeddings 8192 --vocab-size 128256 --position-embedding-type rope "
             "--swiglu --normalization RMSNorm --disable-bias-linear "
             "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --bf16 "
             "--micro-batch-size 1 --global-batch-size 128 --tensor-model-parallel-size 4 "
             "--pipeline-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer\n")

    def test_the_step_is_that_of_the_flags(self):
        live = stepcast.from_megatron(megatron_arguments(), cluster="dgx-h100")
        self.assertEqual(live.gpus, 64)
        with tempfile.TemporaryDirectory() as folder:
            flags = pathlib.Path(folder, "flags.sh")
            flags.write_text(self.FLAGS)
            read = stepcast.import_job("megatron", flags, cluster="dgx-h100", gpus=64)
        self.assertEqual(stepcast.forecast(live).step_time_ps, stepcast.forecast(read).step_time_ps)
        self.assertEqual(stepcast.forecast(live).layout["pipeline_parallel"], 2)

    def test_overrides_and_a_file(self):
        live = stepcast.from_megatron(megatron_arguments(), cluster="dgx-h100",
                                      overrides={"layout.micro_batch": 2})
        self.assertEqual(stepcast.forecast(live).layout["micro_batch"], 2)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.yaml")
            live.save(path)
            self.assertEqual(stepcast.forecast(path).step_time_ps, stepcast.forecast(live).step_time_ps)

    def test_what_is_wrong_names_the_argument(self):
        with self.assertRaises(stepcast.InputError) as raised:
            stepcast.from_megatron(megatron_arguments(tensor_model_parallel_size=3), cluster="dgx-h100")
        self.assertIn("tensor", str(raised.exception))
        with self.assertRaises(stepcast.InputError) as raised:
            stepcast.from_megatron(megatron_arguments(), cluster="dgx-h101")
        self.assertIn("dgx-h100", str(raised.exception))
        with self.assertRaises(TypeError):
            stepcast.from_megatron(3, cluster="dgx-h100")


@dataclasses.dataclass
class Model:
    name: str = "llama3"
    flavor: str = "8B"
    tokenizer_path: str = 'tests/"assets"'


@dataclasses.dataclass
class Training:
    local_batch_size: int = 2
    seq_len: int = 8192
    max_norm: float = 1.0
    dataset_path: object = None


@dataclasses.dataclass
class Parallelism:
    tensor_parallel_degree: int = 2
    module_fqns_per_model_part: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class JobConfig:
    model: Model = dataclasses.field(default_factory=Model)
    training: Training = dataclasses.field(default_factory=Training)
    parallelism: Parallelism = dataclasses.field(default_factory=Parallelism)


class Torchtitan(unittest.TestCase):
    def test_the_step_is_that_of_the_toml(self):
        live = stepcast.from_torchtitan(JobConfig(), cluster="dgx-h100", gpus=16)
        with tempfile.TemporaryDirectory() as folder:
            toml = pathlib.Path(folder, "job.toml")
            toml.write_text('[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\n'
                            "seq_len = 8192\n[parallelism]\ntensor_parallel_degree = 2\n")
            read = stepcast.import_job("torchtitan", toml, cluster="dgx-h100", gpus=16)
        self.assertEqual(stepcast.forecast(live).step_time_ps, stepcast.forecast(read).step_time_ps)

    def test_a_flavor_of_ones_own_takes_a_shipped_model(self):
        live = stepcast.from_torchtitan(
            {"model": {"name": "mine"}, "training": {"local_batch_size": 1, "seq_len": 4096}},
            cluster="dgx-h100", gpus=8, model="llama-3.1-8b")
        self.assertEqual(stepcast.forecast(live).parameters, 8030261248)

    def test_gpus_of_the_launcher(self):
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "32"}):
            live = stepcast.from_torchtitan(JobConfig(), cluster="dgx-h100")
        self.assertEqual(live.gpus, 32)

    def test_a_value_without_a_text_is_named(self):
        with self.assertRaises(ValueError) as raised:
            stepcast.from_torchtitan({"training": {"seq_len": object()}}, cluster="dgx-h100", gpus=8)
        self.assertIn("training.seq_len is a object", str(raised.exception))


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu", "rope_theta": 500000.0,
}


class Strategy(enum.Enum):
    full = "full_shard"
    wrap = "auto_wrap"


class HuggingFace(unittest.TestCase):
    def arguments(self, **more):
        settings = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "bf16": True,
                    "gradient_checkpointing": True, "learning_rate": 1e-5, "deepspeed": None,
                    "fsdp": [Strategy.full, Strategy.wrap],
                    "fsdp_config": {"version": 2}, "output_dir": "out", **more}
        return types.SimpleNamespace(to_dict=lambda: settings, world_size=16)

    def test_a_model_with_its_config(self):
        config = types.SimpleNamespace(to_dict=lambda: LLAMA)
        model = types.SimpleNamespace(config=config, dtype="torch.float32")
        live = stepcast.from_hf(model, self.arguments(), cluster="dgx-h100", sequence_length=4096)
        step = stepcast.forecast(live)
        self.assertEqual((step.gpus, step.layout["zero_stage"], step.layout["recompute"]), (16, 3, "full"))
        self.assertEqual(step.parameters, 8030261248)
        self.assertEqual(step.tokens_per_step, 16 * 4 * 4096)

    def test_a_config_alone_and_deepspeed_in_line(self):
        arguments = self.arguments(fsdp=[], fsdp_config={}, deepspeed={
            "zero_optimization": {"stage": 3}, "bf16": {"enabled": True},
            "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"})
        live = stepcast.from_hf(LLAMA, arguments, cluster="dgx-h100", sequence_length=4096)
        self.assertEqual(stepcast.forecast(live).layout["zero_stage"], 3)

    def test_what_is_missing_is_said(self):
        with self.assertRaises(stepcast.InputError) as raised:
            stepcast.from_hf(LLAMA, self.arguments(), cluster="dgx-h100")
        self.assertIn("sequence", str(raised.exception))


class Shaped:
    """A module as from_torch sees it: names and shapes of parameters, and its submodules."""

    def __init__(self, shapes, **attributes):
        self.shapes = shapes
        vars(self).update(attributes)

    def named_parameters(self):
        return [(name, types.SimpleNamespace(shape=shape)) for name, shape in self.shapes.items()]

    def modules(self):
        return [self]


def llama_shapes(layers=32, hidden=4096, keys=1024, width=14336, vocabulary=128256):
    shapes = {"embed.weight": (vocabulary, hidden), "norm.weight": (hidden,), "head.weight": (vocabulary, hidden)}
    for i in range(layers):
        for name, shape in (("wq", (hidden, hidden)), ("wk", (keys, hidden)), ("wv", (keys, hidden)),
                            ("wo", (hidden, hidden)), ("w1", (width, hidden)), ("w2", (hidden, width)),
                            ("w3", (width, hidden))):
            shapes[f"layers.{i}.{name}.weight"] = shape
        for name in ("attention_norm", "ffn_norm"):
            shapes[f"layers.{i}.{name}.weight"] = (hidden,)
    return shapes


class Modules(unittest.TestCase):
    def read(self, module, **more):
        return stepcast.from_torch(module, cluster="dgx-h100", gpus=8, micro_batch=1,
                                   sequence_length=4096, **more)

    def test_the_shapes_of_llama(self):
        live = self.read(Shaped(llama_shapes(), n_heads=32), strategy="fsdp2")
        step = stepcast.forecast(live)
        self.assertEqual(step.parameters, 8030261248)
        self.assertEqual(step.layout["zero_stage"], 3)
        config = stepcast.from_hf(LLAMA, {"per_device_train_batch_size": 1, "bf16": True,
                                          "fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 2}},
                                  cluster="dgx-h100", gpus=8, sequence_length=4096)
        self.assertEqual(step.step_time_ps, stepcast.forecast(config).step_time_ps)

    def test_a_module_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")

        class Tiny(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Embedding(1000, 64)
                layer = torch.nn.TransformerEncoderLayer(64, 4, 256)
                self.layers = torch.nn.TransformerEncoder(layer, 3)
                self.head = torch.nn.Linear(64, 1000, bias=False)

        module = Tiny()
        step = stepcast.forecast(self.read(module))
        # PyTorch's encoder ends without the norm that a shipped shape has.
        self.assertEqual(step.parameters, sum(p.numel() for p in module.parameters()) + 2 * 64)

    def test_what_is_no_transformer_is_refused(self):
        for shapes, words in (({"a.weight": (3, 3)}, "no parameters are of a stack of layers"),
                              ({"layers.0.a.weight": (3, 4)}, "no embedding"),
                              ({**llama_shapes(2), "layers.1.extra": (3,)}, "layer 1 of layers"),
                              ({"layers.0.experts": (8, 4, 4), "e": (9, 4)}, "experts")):
            with self.assertRaises(ValueError) as raised:
                self.read(Shaped(shapes, n_heads=32))
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(ValueError) as raised:
            self.read(Shaped(llama_shapes()))
        self.assertIn("give heads=N", str(raised.exception))
        with self.assertRaises(ValueError) as raised:
            self.read(Shaped(llama_shapes(), n_heads=32), strategy="fsdp3")
        self.assertIn("allowed: ddp, fsdp, fsdp2", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
