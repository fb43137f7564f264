// Assignments of Python functions.
#include <fmt/format.h>

#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

sim::Document python(std::string_view text) {
  return sim::Document::parse(text, "a.py", sim::Syntax::python);
}

constexpr std::string_view recipe = R"("""Recipes: def none() of this."""
from base import (
    one,
)


def first_8gpu_config(flag: bool = True) -> Container:
    """What it is.

    cfg.model.no = 1
    """
    cfg = base_config(peft="lora")
    cfg.model.layers = 4  # four
    cfg.model.ratio = 0.5
    cfg.model.rate = 1e-3
    cfg.model.on = True
    cfg.model.none = None
    cfg.model.tokens = 14 * 1024
    cfg.model.modules = ["a", 'b']
    cfg.model.dtype = torch.bfloat16
    cfg.overlap = Overlap(on=True, 3)
    cfg.overlap.more = False
    _helper(cfg, 4)
    if flag:
        cfg.model.layers = 5
    cfg.env_vars = {
        **COMMON,
        "A": 1,  # a comment, with "quotes
    }
    return cfg


def second():
    cfg = first_8gpu_config()
    cfg.model.layers = 8
)";

}  // namespace

TEST_CASE("Python: assignments of a function are a tree", "[config]") {
  const sim::Document document = python(recipe);
  const sim::ObjectReader file = document.root_object();
  const sim::ObjectReader first = file.object("first_8gpu_config");
  CHECK(first.text("_base") == "base_config");
  const sim::ObjectReader model = first.object("model");
  CHECK(model.real("ratio", {0, 1}) == 0.5);
  CHECK(model.real("rate", {0, 1}) == 1e-3);
  CHECK(model.boolean("on"));
  CHECK(model.integer("tokens", {0, 100'000}) == 14336);
  CHECK(model.list("modules").size() == 2);
  CHECK(model.text("dtype") == "torch.bfloat16");
  // What stands under a condition is read as if it held.
  CHECK(model.integer("layers", {0, 100}) == 5);
  const sim::ObjectReader overlap = first.object("overlap");
  CHECK(overlap.text("_target_") == "Overlap");
  CHECK(overlap.boolean("on"));
  CHECK(overlap.integer("_0", {0, 10}) == 3);
  CHECK_FALSE(overlap.boolean("more"));
  CHECK(first.list("_calls").front().text() == "_helper");
  CHECK(first.list("_unread").front().text() == "if flag:");
  CHECK(first.object("env_vars").integer("A", {0, 10}) == 1);
  CHECK(file.object("second").object("model").integer("layers", {0, 100}) == 8);
}

TEST_CASE("Python: problems have the place of the value, and broken text is left out", "[config]") {
  const sim::Document document = python("def a():\n    cfg.model.layers = 'four'\n");
  const std::string said = problems_of([&] {
    const sim::ObjectReader a = document.root_object().object("a");
    static_cast<void>(a.object("model").integer("layers", {0, 10}));
    document.finish();
  });
  CHECK(said.starts_with("2:24 "));
  for (const char* text : {"def", "def a(", "def a():\n  cfg.x = [1, (2", "def a():\n  cfg. = 1",
                           "def a():\n  cfg.x = \"", "def a():\n  cfg.x.y = 1\n  cfg.x = 2\n",
                           "\"\"\"", "def a():\n  )))\n  cfg.a = {1: 2}"})
    CHECK(problems_of([&] { static_cast<void>(python(text).root_object()); }) == "none");
  // Names that double with every line end as names that are not known.
  std::string doubling = "def a():\n    cfg = base()\n    a0 = [1, 1]\n";
  for (int i = 0; i < 64; ++i)
    doubling += fmt::format("    a{} = [a{}, a{}]\n", i + 1, i, i);
  doubling += "    cfg.x = a64\n";
  const sim::Document names = python(doubling);
  const sim::ObjectReader a = names.root_object().object("a");
  CHECK(a.list("x").size() == 2);
}
