// A file of another kind is told what it is.
#include "sim/config/file_kind.hpp"

#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

using sim::FileKind;

std::string refusal(const std::string& text, FileKind wanted) {
  return problems_of(
      [&] { sim::refuse_other_kinds(sim::Document::parse_yaml(text, "a.yaml"), wanted); });
}

TEST_CASE("a file of another kind is named, with what it is good for", "[config]") {
  CHECK(refusal("device: d.yaml\nnode: {}\n", FileKind::scenario) ==
        "this is a cluster file, not a scenario; a scenario names it as 'cluster: {path: FILE}'");
  CHECK(refusal("architectures: [LlamaForCausalLM]\n", FileKind::scenario) ==
        "this is a Hugging Face config.json, not a scenario; a scenario names it as 'model: FILE'");
  CHECK(refusal("zero_optimization: {stage: 3}\n", FileKind::scenario) ==
        "this is a DeepSpeed config, not a scenario; `stepcast import deepspeed` makes a scenario "
        "of it");
  CHECK(refusal("transformer: {}\n", FileKind::cluster) ==
        "this is a model file, not a cluster file; a scenario names it as 'model: FILE'");
  CHECK(refusal("model: a\ncluster: b\n", FileKind::model) ==
        "this is a scenario, not a model file; give it to simulate");
}

TEST_CASE("the kind of a file shows in the keys at its top", "[config]") {
  const auto kind = [](const std::string& text) {
    return sim::kind_of(sim::Document::parse_yaml(text, "a.yaml"));
  };
  CHECK(kind("model: a\ncluster: b\n") == FileKind::scenario);
  CHECK(kind("trainer: {}\nmodel: {}\n") == FileKind::nemo);
  CHECK_FALSE(kind("colour: red\n"));
  CHECK(sim::kind_text(FileKind::cluster) ==
        "a cluster file; a scenario names it as 'cluster: {path: FILE}'");
}

TEST_CASE("a file of the kind that is wanted passes, and one whose kind does not show",
          "[config]") {
  CHECK(refusal("model: a\ncluster: b\nlayout: {}\n", FileKind::scenario) == "none");
  CHECK(refusal("layout: {}\ntransformer: {}\n", FileKind::scenario) == "none");
  CHECK(refusal("colour: red\n", FileKind::scenario) == "none");
  CHECK(refusal("[1, 2]\n", FileKind::scenario) == "none");
  CHECK(refusal("text\n", FileKind::cluster) == "none");
}

}  // namespace
