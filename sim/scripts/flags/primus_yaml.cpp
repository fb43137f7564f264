// Sources (AMD-AGI/Primus at fd1eeabb): primus/core/config/yaml_loader.py (variables, extends, deep
// merge), preset_loader.py (primus/configs/models|modules/FRAMEWORK/NAME),
// configs/modules/megatron/trainer_base.yaml and pre_trainer.yaml, configs/models/megatron/
// language_model.yaml, configs/modules/torchtitan/pre_trainer.yaml.
#include "sim/scripts/flags/primus_yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>

#include "sim/config/parsers.hpp"

namespace sim {
namespace {

constexpr int deepest_reference = 16;
constexpr int most_files = 64;

// A value of several files on top of each other.
struct MergedEntry;
struct Merged {
  ValueKind kind = ValueKind::object;
  TextPlace key_place, place;
  std::string text;                  // of a scalar
  std::vector<MergedEntry> entries;  // of an object, or, without names, a list

  Merged* find(std::string_view key);
};
struct MergedEntry {
  std::string name;
  Merged value;
};

Merged* Merged::find(std::string_view key) {
  for (auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

// Objects are joined, anything else is replaced.
void merge(Merged& under, Merged over) {
  if (under.kind != ValueKind::object || over.kind != ValueKind::object) {
    under = std::move(over);
    return;
  }
  for (auto& [name, value] : over.entries) {
    if (Merged* known = under.find(name))
      merge(*known, std::move(value));
    else
      under.entries.push_back({name, std::move(value)});
  }
}

// Presets of Primus that differ from Megatron-LM's defaults, for where the presets are not at hand.
constexpr std::string_view megatron_module =
    "bf16: true\nmicro_batch_size: 2\nglobal_batch_size: 16\nseq_length: 1024\n"
    "use_distributed_optimizer: true\n";
constexpr std::string_view megatron_model =
    "swiglu: true\nadd_bias_linear: false\nuntie_embeddings_and_output_weights: true\n"
    "sequence_parallel: true\n";
constexpr std::string_view torchtitan_module =
    "training: {local_batch_size: 8, seq_len: 2048, global_batch_size: -1}\n"
    "compile: {enable: true, components: [model, loss]}\n"
    "optimizer: {name: AdamW, implementation: fused}\n"
    "activation_checkpoint: {mode: none}\n";

// Keys of a module that are Primus's own and no argument of its framework.
constexpr std::array<std::string_view, 8> own_keys{
    "extends",         "includes",          "trainable",     "sink_level",
    "file_sink_level", "stderr_sink_level", "trainer_class", "primus_turbo"};

// Arguments of Megatron-LM's other programs, which Primus's presets list with their defaults.
constexpr std::array<std::string_view, 12> of_other_programs{
    "retro_", "bert_",      "grpo_", "vision_", "dino_",   "inference_",
    "swin_",  "biencoder_", "ict_",  "rl_",     "langrl_", "mask_"};

bool begins_with_any(std::string_view key, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return key.starts_with(prefix); });
}

class Experiment {
 public:
  Experiment(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
             std::vector<Remark>& remarks)
      : tree_{tree}, definitions_{definitions}, files_{files}, remarks_{remarks} {}

  void parse() {
    Merged whole = read(tree_.source(), tree_.name(), nullptr);
    Merged* module = module_of(whole);
    if (module == nullptr) tree_.fail({1, 0}, "no module of this experiment has a framework");
    const std::string framework = text_of(*module, "framework");
    const bool megatron = framework == "megatron";
    if (!megatron && framework != "torchtitan")
      tree_.fail(module->find("framework")->place,
                 fmt::format("the back end {} is not read; allowed: megatron, torchtitan",
                             framework.substr(0, 80)));
    Merged job;
    preset(*module, "config", "modules", framework, job);
    preset(*module, "model", "models", framework, job);
    if (Merged* over = module->find("overrides")) merge(job, *over);
    megatron ? write_flags(job) : write_sections(job);
  }

 private:
  static std::string text_of(Merged& object, std::string_view key) {
    Merged* found = object.find(key);
    return found == nullptr ? "" : found->text;
  }

  Merged* module_of(Merged& whole) {
    Merged* modules = whole.find("modules");
    if (modules == nullptr || modules->kind != ValueKind::object) return nullptr;
    for (auto& [name, module] : modules->entries)
      if (module.kind == ValueKind::object && module.find("framework") != nullptr) return &module;
    return nullptr;
  }

  // ---- Files.

  // `at`: where values of another file than the experiment are shown; nullptr: where they are.
  Merged read(std::string_view text, const std::string& name, const TextPlace* at) {
    if (++files_read_ > most_files)
      tree_.fail(at != nullptr ? *at : TextPlace{1, 0}, "files that name each other without end");
    Tree yaml{text, name};
    parse_yaml_into(yaml);
    yaml.throw_problems();
    visits_ = 0;
    return copy(yaml, yaml.root(), at);
  }

  Merged copy(const Tree& yaml, NodeIndex index, const TextPlace* at) {
    const TreeNode& node = yaml.node(index);
    Merged made;
    made.kind = node.kind;
    made.place = at != nullptr ? *at : node.place;
    if (++visits_ > 100'000) yaml.fail(node.place, "too many values");
    if (node.kind == ValueKind::object || node.kind == ValueKind::list) {
      for (std::uint32_t slot = 0; slot < node.entry_count; ++slot) {
        const TreeEntry& entry = yaml.entry(node, slot);
        const std::string key{node.kind == ValueKind::object ? yaml.text(entry.key)
                                                             : std::string_view{}};
        made.entries.push_back({key, copy(yaml, entry.node, at)});
        made.entries.back().value.key_place = at != nullptr ? *at : entry.key_place;
      }
      return made;
    }
    made.text = with_variables(yaml, node);
    // A variable's value is read as if it stood there.
    if (made.text != yaml.text(node.text) && node.kind == ValueKind::quoted)
      made.kind = ValueKind::plain;
    if (made.kind == ValueKind::plain && (made.text == "null" || made.text == "~"))
      made.kind = ValueKind::null;
    return made;
  }

  std::string with_variables(const Tree& yaml, const TreeNode& node) {
    std::string_view rest = yaml.text(node.text);
    std::string made;
    while (true) {
      const std::size_t begin = rest.find("${");
      const std::size_t end = begin == std::string_view::npos ? begin : rest.find('}', begin);
      if (end == std::string_view::npos) return made.append(rest);
      const std::string_view inner = rest.substr(begin + 2, end - begin - 2);
      const std::size_t colon = inner.find(':');
      const std::string name{inner.substr(0, colon)};
      const auto given = std::ranges::find(definitions_, name, &Definition::name);
      if (given == definitions_.end() && colon == std::string_view::npos)
        yaml.fail(node.place,
                  fmt::format("${{{}}} has no default: give --define {}=VALUE", name, name));
      made.append(rest.substr(0, begin));
      made.append(given != definitions_.end() ? std::string_view{given->value}
                                              : inner.substr(colon + 1));
      rest.remove_prefix(end + 1);
    }
  }

  // The file with those that it extends under it.
  std::optional<Merged> file(const std::string& path, const TextPlace& at, int depth) {
    const std::optional<std::string> text = files_ ? files_(path) : std::nullopt;
    if (!text) return std::nullopt;
    if (depth > deepest_reference) tree_.fail(at, "files that extend each other without end");
    Merged own = read(*text, path, &at);
    Merged made;
    for (const char* key : {"includes", "extends"}) {
      Merged* names = own.find(key);
      if (names == nullptr) continue;
      const std::string folder = std::filesystem::path{path}.parent_path().string();
      const auto take = [&](const std::string& name) {
        const std::string other =
            (std::filesystem::path{folder} / name).lexically_normal().string();
        std::optional<Merged> read = file(other, at, depth + 1);
        if (!read) tree_.fail(at, fmt::format("{} extends {}, which is not beside it", path, name));
        merge(made, std::move(*read));
      };
      if (names->kind != ValueKind::list) take(names->text);
      for (const auto& [none, name] : names->entries)
        take(name.text);
    }
    merge(made, std::move(own));
    return made;
  }

  void preset(Merged& module, const char* key, const char* kind, const std::string& framework,
              Merged& job) {
    Merged* named = module.find(key);
    if (named == nullptr || named->text.empty()) return defaults(key, framework, job);
    std::string name = named->text;
    if (!name.ends_with(".yaml") && !name.ends_with(".yml")) name += ".yaml";
    std::vector<std::string> places{fmt::format("{}/{}/{}", kind, framework, name),
                                    fmt::format("{}/{}", kind, name), name};
    std::string up;
    for (int i = 0; i < 7; ++i, up += "../")
      places.push_back(fmt::format("{}primus/configs/{}/{}/{}", up, kind, framework, name));
    for (const std::string& place : places)
      if (std::optional<Merged> read = file(place, named->place, 0))
        return merge(job, std::move(*read));
    defaults(key, framework, job);
    const bool model = key == std::string_view{"model"};
    if (model && framework == "torchtitan") return name_flavor(name, *named, job);
    remarks_.push_back(
        {key, fmt::format("{} is neither beside this file nor in primus/configs/{}/{} above it: "
                          "{}",
                          named->text, kind, framework,
                          model ? "the sizes of the model have to stand in overrides, or give "
                                  "--model NAME"
                                : "what Primus's own file of that name says of a step (bf16, "
                                  "sizes of batches, the optimizer), else the framework's "
                                  "defaults")});
  }

  void defaults(std::string_view key, const std::string& framework, Merged& job) {
    const bool model = key == "model";
    if (model && framework == "torchtitan") return;
    const TextPlace at{1, 0};
    merge(job, read(framework == "torchtitan" ? torchtitan_module
                    : model                   ? megatron_model
                                              : megatron_module,
                    "Primus's presets", &at));
  }

  // "llama3.1_8B-fp8.yaml": the flavor 8B of llama3 with linears in 8 bits.
  void name_flavor(const std::string& file, const Merged& named, Merged& job) {
    std::string name = file.substr(0, file.rfind('.'));
    const bool fp8 = name.ends_with("-fp8");
    if (fp8) name.resize(name.size() - 4);
    const std::size_t cut = name.rfind('_');
    if (cut == std::string::npos) return;
    std::string model = name.substr(0, cut), flavor = name.substr(cut + 1);
    if (model.starts_with("llama3")) model = "llama3";
    std::ranges::transform(flavor, flavor.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (model == "llama4" || model == "gpt_oss")
      std::ranges::transform(flavor, flavor.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const TextPlace at = named.place;
    merge(job, read(fmt::format("model: {{name: {}, flavor: {}, converters: [{}]}}\n", model,
                                flavor, fp8 || asks_for_float8() ? "quantize.linear.float8" : ""),
                    "Primus's presets", &at));
    remarks_.push_back({"model", fmt::format("{} is not at hand: read as {} {} by its name", file,
                                             model, flavor)});
  }

  // Where the model's own converters are not known.
  bool asks_for_float8() const {
    const std::string_view text = tree_.source();
    const std::size_t at = text.find("use_turbo_float8_linear");
    if (at == std::string_view::npos) return false;
    return text.substr(at, 40).find("true") != std::string_view::npos;
  }

  // ---- Trees.

  void note_turbo(Merged& job) {
    bool on = text_of(job, "enable_primus_turbo") == "true";
    if (Merged* section = job.find("primus_turbo"))
      on = on || (section->kind == ValueKind::object &&
                  text_of(*section, "enable_primus_turbo") == "true");
    if (on)
      remarks_.push_back({"primus_turbo",
                          "its kernels are not modelled: those of Transformer Engine and "
                          "torchtitan stand for them"});
  }

  // drop_turbo() drops what Primus adds to torchtitan's sections: a converter to its own kernels,
  // data that it makes.
  static void drop_turbo(Merged& job) {
    if (Merged* training = job.find("training"))
      std::erase_if(training->entries, [](const auto& entry) { return entry.name == "mock_data"; });
    Merged* model = job.find("model");
    Merged* converters = model == nullptr ? nullptr : model->find("converters");
    if (converters == nullptr) return;
    std::erase_if(converters->entries,
                  [](const auto& entry) { return entry.value.text == "primus_turbo"; });
  }

  static bool is_own(std::string_view key) {
    return std::ranges::find(own_keys, key) != own_keys.end() || key.starts_with("enable_primus") ||
           key.starts_with("use_turbo") || key.starts_with("turbo_") || key.starts_with("odc_") ||
           key.starts_with("mlflow_");
  }

  void write_flags(Merged& job) {
    note_turbo(job);
    tree_.open({1, 0}, ValueKind::object);
    tree_.add_key({1, 0}, "printed");
    tree_.add_scalar({1, 0}, ValueKind::plain, "true");
    std::vector<std::string> written;
    for (const auto& [name, value] : job.entries) {
      if (is_own(name) || begins_with_any(name, of_other_programs) ||
          value.kind == ValueKind::null || value.kind == ValueKind::object)
        continue;
      const std::string flag = flag_of_argument(name);
      if (std::ranges::find(written, flag) != written.end()) continue;
      written.push_back(flag);
      tree_.add_key(value.key_place, flag);
      write_argument(name, value);
    }
    tree_.close();
    tree_.throw_problems();
  }

  void write_argument(const std::string& name, const Merged& value) {
    if (value.kind != ValueKind::list) {
      const std::string plain = value.text == "true"    ? "True"
                                : value.text == "false" ? "False"
                                                        : value.text;
      tree_.add_scalar(value.place, ValueKind::plain, value_of_argument(name, plain));
      return;
    }
    tree_.open(value.place, ValueKind::list);
    for (const auto& [none, item] : value.entries)
      write(item);
    tree_.close();
  }

  void write_sections(Merged& job) {
    note_turbo(job);
    drop_turbo(job);
    tree_.open({1, 0}, ValueKind::object);
    for (const auto& [name, value] : job.entries) {
      if (is_own(name)) continue;
      tree_.add_key(value.key_place, name);
      write(value);
    }
    tree_.close();
    tree_.throw_problems();
  }

  void write(const Merged& value) {
    if (value.kind != ValueKind::object && value.kind != ValueKind::list) {
      tree_.add_scalar(value.place, value.kind, value.text);
      return;
    }
    tree_.open(value.place, value.kind);
    for (const auto& [name, item] : value.entries) {
      if (value.kind == ValueKind::object) {
        if (item.kind == ValueKind::null) continue;
        tree_.add_key(item.key_place, name);
      }
      write(item);
    }
    tree_.close();
  }

  Tree& tree_;
  std::span<const Definition> definitions_;
  const ShellFiles& files_;
  std::vector<Remark>& remarks_;
  int files_read_ = 0, visits_ = 0;
};

}  // namespace

std::string primus_framework(std::string_view text) {
  bool modules = false, trainer = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("modules:")) modules = true;
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(begin);
    if (line.starts_with("pre_trainer:") || line.starts_with("post_trainer:") ||
        line.starts_with("sft_trainer:"))
      trainer = true;
    constexpr std::string_view key = "framework:";
    if (!modules || !trainer || !line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return std::string{line.substr(0, line.find_first_of(" \t\r#"))};
  }
  return {};
}

void parse_primus_into(Tree& tree, std::span<const Definition> definitions, const ShellFiles& files,
                       std::vector<Remark>& remarks) {
  Experiment{tree, definitions, files, remarks}.parse();
}

}  // namespace sim
