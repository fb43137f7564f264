// Functions of Python files that make a configuration.
#include <fmt/format.h>

#include "sim/scripts/python/python_recipe.hpp"
#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

sim::EvaluatedPython evaluated(std::string_view text, const std::string& name,
                               const sim::PythonRules& rules = {}) {
  return {text, "a.py", name, rules};
}

// x_after() is cfg.x after `lines`.
std::string x_after(const std::string& lines) {
  const sim::EvaluatedPython document = evaluated("def a():\n  cfg = base()\n" + lines, "a");
  const sim::ObjectReader a = document.root_object();
  if (!a.has("x")) return "none";
  if (a.find("x")->is_list()) return fmt::format("{} entries", a.list("x").size());
  return a.find("x")->peek_text().value_or("object");
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
    if cfg.model.unheard_of:
        cfg.model.layers = 5
    cfg.env_vars = {
        **COMMON,
        "A": 1,  # a comment, with "quotes
    }
    return cfg


def second():
    cfg = first_8gpu_config()
    cfg.model.layers = cfg.model.layers + 3
    return cfg
)";

}  // namespace

TEST_CASE("Python: a configuration is what a function makes", "[scripts]") {
  CHECK(sim::python_configurations(recipe) ==
        std::vector<std::string>{"first_8gpu_config", "second"});
  std::string sound{recipe};
  sound.replace(sound.find("on=True, 3"), 10, "3, on=True");
  const sim::EvaluatedPython document = evaluated(sound, "first_8gpu_config");
  const sim::ObjectReader first = document.root_object();
  CHECK(first.text("_base") == "base_config");
  const sim::ObjectReader model = first.object("model");
  CHECK(model.real("ratio", {0, 1}) == 0.5);
  CHECK(model.real("rate", {0, 1}) == 1e-3);
  CHECK(model.boolean("on"));
  CHECK_FALSE(model.has("none"));
  CHECK(model.integer("tokens", {0, 100'000}) == 14336);
  CHECK(model.list("modules").size() == 2);
  CHECK(model.text("dtype") == "torch.bfloat16");
  // A value that an unknown condition decides is unknown.
  CHECK_FALSE(model.has("layers"));
  CHECK(first.object("_unknown").text("model.layers") == "if cfg.model.unheard_of:");
  const sim::ObjectReader overlap = first.object("overlap");
  CHECK(overlap.text("_target_") == "Overlap");
  CHECK(overlap.boolean("on"));
  CHECK(overlap.integer("_0", {0, 10}) == 3);
  CHECK_FALSE(overlap.boolean("more"));
  CHECK(first.list("_calls").front().text() == "_helper");
  CHECK(first.object("env_vars").integer("A", {0, 10}) == 1);
  sound.replace(sound.find("cfg.model.unheard_of"), 20, "cfg.overlap.on");
  const sim::EvaluatedPython second = evaluated(sound, "second");
  CHECK(second.root_object().object("model").integer("layers", {0, 100}) == 8);
}

TEST_CASE("Python: expressions and statements are evaluated", "[scripts]") {
  CHECK(x_after("  cfg.x = 7 // 2 + 7 % 4 * 2 ** 3\n") == "27");
  CHECK(x_after("  cfg.x = -7 // 2\n") == "-4");
  CHECK(x_after("  cfg.x = 1 if 2 > 3 else 4\n") == "4");
  CHECK(x_after("  a, b = divmod(61, 14)\n  cfg.x = a * 100 + b\n") == "405");
  CHECK(x_after("  cfg.x = [['e'] + ['d'] * 4] + [['d'] * 4] * 14\n") == "15 entries");
  CHECK(x_after("  cfg.x = {(4, 1): 'a', (8, 2): 'b'}[(8, 2)]\n") == "b");
  CHECK(x_after("  cfg.x = [i for i in range(10) if i % 3 == 0]\n") == "4 entries");
  CHECK(
      x_after("  cfg.x = 0\n  for i in range(5):\n    if i == 3:\n      break\n    cfg.x += i\n") ==
      "3");
  CHECK(x_after("  cfg.x = 'a' in ['b', 'a'] and not 'LoRA'.lower() == 'x'\n") == "true");
  CHECK(x_after("  cfg.x = getattr(cfg, 'y', 3)\n") == "3");
  CHECK(x_after("  cfg.y = 'bf16'\n  cfg.x = isinstance(cfg.y, str)\n") == "true");
  CHECK(x_after("  try:\n    raise ValueError('a')\n  except ValueError:\n    cfg.x = 1\n") == "1");
  CHECK(x_after("  def f(n, *, by=2):\n    return n * by\n  cfg.x = f(4, by=3)\n") == "12");
  CHECK(x_after("  def f(**k):\n    return g(**k)\n  cfg.y = f(b=2)\n  cfg.x = cfg.y.b\n") == "2");
  // Nothing follows from what is not known.
  CHECK(x_after("  cfg.x = 1\n  cfg.x = cfg.other + 1\n") == "none");
  CHECK(x_after("  cfg.x = os.cpu_count()\n") == "none");
  CHECK(x_after("  cfg.x = 9 ** 99\n") == "none");
}

TEST_CASE("Python: what hangs on a condition that is not known is not known", "[scripts]") {
  const std::string unless = "  cfg.x = 1\n  if cfg.a:\n    ";
  CHECK(x_after(unless + "cfg.x = 2\n") == "none");
  CHECK(x_after(unless + "cfg.x = 1\n") == "1");
  CHECK(x_after(unless + "pass\n  else:\n    cfg.x = 2\n") == "none");
  CHECK(x_after(unless + "y = 2\n  cfg.x = y\n") == "none");
  CHECK(x_after(unless + "raise ValueError\n  cfg.x = 2\n") == "2");
  CHECK(x_after(unless + "setattr(cfg, 'x', 2)\n") == "none");
  CHECK(x_after(unless + "return cfg\n  cfg.x = 2\n") == "none");
  CHECK(x_after("  for i in cfg.a:\n    cfg.x = i\n") == "none");
  CHECK(x_after("  def f():\n    if cfg.a:\n      return 1\n    return 2\n  cfg.x = f()\n") ==
        "none");
  CHECK(x_after("  def f():\n    if cfg.a:\n      return 2\n    return 2\n  cfg.x = f()\n") == "2");
  CHECK(
      x_after("  def f():\n    y = 3\n    return y\n  cfg.x = 3\n  if cfg.a:\n    cfg.x = f()\n") ==
      "3");
  CHECK(x_after("  cfg.x = [1, cfg.a]\n") == "none");
  CHECK(x_after(unless + "cfg.y = 2\n") == "1");
  CHECK(x_after("  if hasattr(cfg, 'x') and cfg.x:\n    cfg.x = False\n") == "false");
  CHECK(x_after("  if hasattr(cfg, 'x') and cfg.x:\n    cfg.x = True\n") == "none");
}

TEST_CASE("Python: helpers change what they are given", "[scripts]") {
  constexpr std::string_view prelude = "def known(cfg):\n    cfg.by = 'prelude'\n";
  constexpr std::string_view text = R"(
def table(pp, vp):
    return {(4, 1): None, (4, 2): [["embedding"], ["loss"]]}[(pp, 1 if vp is None else vp)]

def place(model, extra=()):
    model.layout = table(model.pp, model.vp)

def a():
    cfg = base()
    cfg.model.pp, cfg.model.vp = 4, 2
    place(cfg.model)
    known(cfg)
    return cfg
)";
  const sim::EvaluatedPython document = evaluated(text, "a", {.prelude = prelude});
  const sim::ObjectReader a = document.root_object();
  CHECK(a.object("model").list("layout").size() == 2);
  CHECK(a.text("by") == "prelude");
  CHECK_FALSE(a.has("_calls"));
  CHECK_FALSE(a.has("_unread"));
}

TEST_CASE("Python: problems have the place of the value, and broken text is left out",
          "[scripts]") {
  const std::string said = problems_of([&] {
    const sim::EvaluatedPython document =
        evaluated("def a():\n    cfg = b()\n    cfg.model.layers = 'four'\n", "a");
    const sim::ObjectReader a = document.root_object();
    static_cast<void>(a.text("_base"));
    static_cast<void>(a.object("model").integer("layers", {0, 10}));
    document.finish();
  });
  CHECK(said.starts_with("3:24 "));
  const std::string begin = "def a():\n  cfg = b()\n";
  for (const std::string end :
       {"  cfg.x = [1, (2", "  cfg. = 1", "  cfg.x = \"", "  cfg.x.y = 1\n  cfg.x = 2\n",
        "  \"\"\"", "  )))\n  cfg.a = {1: 2}", "  while True:\n    pass\n",
        "  cfg.x = cfg\n  cfg.x.y = cfg.x"})
    CHECK(problems_of([&] { static_cast<void>(evaluated(begin + end, "a").root_object()); }) !=
          "crash");
  for (const char* text : {"def", "def a(", "\"\"\"", "x = (", "@", "if", "\t\tx", "a = lambda: 0"})
    CHECK(sim::python_configurations(text).empty());
  CHECK(problems_of([&] {
          static_cast<void>(evaluated(begin + "  raise ValueError\n", "a"));
        }).find("a() raises an error") != std::string::npos);
}

TEST_CASE("Python: what grows without end is refused", "[scripts]") {
  const auto refused = [](const std::string& text) {
    return problems_of([&] { static_cast<void>(evaluated(text, "a").root_object()); });
  };
  std::string doubling = "def a():\n    cfg = base()\n    a0 = [1, 1]\n";
  for (int i = 0; i < 64; ++i)
    doubling += fmt::format("    a{} = [a{}, a{}]\n", i + 1, i, i);
  doubling += "    cfg.x = a64\n";
  for (const std::string& text :
       {doubling, std::string{"def a():\n  return a()\n"},
        std::string{"def a():\n  cfg = b()\n  cfg.x = [0] * 999999999\n"},
        std::string{"def a():\n  cfg = b()\n  cfg.x = cfg\n"},
        std::string{"def a():\n  cfg = b()\n  for i in range(999999999):\n    pass\n"}})
    CHECK(refused(text).find("makes more values than a recipe has") != std::string::npos);
}
