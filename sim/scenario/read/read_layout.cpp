#include "sim/scenario/read/read_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <variant>

#include "sim/base/rounding.hpp"
#include "sim/config/shipped_only.hpp"
#include "sim/framework/presets/message_overlap.hpp"
#include "sim/layout/layout_fields.hpp"

namespace sim {
namespace {

// A single value, as the row says. Lists have readers of their own.
class FieldReader {
 public:
  FieldReader(const Layered& section, const Key& key, std::string leaf)
      : section_{section}, key_{key}, leaf_{std::move(leaf)} {}
  void operator()(int& value) const { value = section_.int_or(leaf_, value, range()); }
  void operator()(std::int64_t& value) const { value = section_.integer_or(leaf_, value, range()); }
  void operator()(double& value) const {
    value = section_.real_or(leaf_, value, {*key_.least, *key_.greatest});
  }
  void operator()(bool& value) const { value = section_.boolean_or(leaf_, value); }
  template <class Enum>
  void operator()(Enum& value) const {
    value = section_.word_or(leaf_, value);
  }
  // auto: the framework's.
  void operator()(std::optional<Bytes>& value) const {
    const ObjectReader* holder = section_.holder(leaf_);
    if (!holder || holder->at(leaf_).peek_text() == "auto") return;
    value = section_.bytes_or(leaf_, Bytes{1});
    if (value->count() < 1) section_.problem(leaf_, "must be at least 1 B");
  }
  void operator()(std::optional<DType>& value) const {
    const ObjectReader* holder = section_.holder(leaf_);
    if (!holder || holder->at(leaf_).peek_text() == "auto") return;  // as value_text() has it
    value = section_.word_or(leaf_, DType::fp32);
  }
  // The path of a file is what it is to the scenario: find_lengths() reads it.
  void operator()(LengthSource& value) const {
    value.name = section_.text_or(leaf_, value.name);
    if (value.name.empty()) section_.problem(leaf_, "is empty; allowed: none, lognormal, a file");
  }
  void operator()(std::vector<Dimension>&) const {}
  // Each once.
  template <class Module>
  requires std::is_enum_v<Module>
  void operator()(std::vector<Module>& modules) const {
    const ObjectReader* holder = section_.holder(leaf_);
    if (!holder) return;
    modules.clear();
    for (const ValueReader& entry : holder->list(leaf_)) {
      const std::string name = entry.text();
      const std::optional<Module> module = from_word<Module>(name);
      if (!module)
        return entry.problem(
            fmt::format("'{}' is no module; allowed: {}", name, modules_text<Module>()));
      if (std::find(modules.begin(), modules.end(), *module) != modules.end())
        return entry.problem(fmt::format("{} stands there twice", name));
      modules.push_back(*module);
    }
  }
  void operator()(std::vector<int>&) const {}
  void operator()(ExpertLoad& load) const {
    const ObjectReader* holder = section_.holder(leaf_);
    if (!holder) return;
    const ValueReader value = holder->at(leaf_);
    load = value.is_list() ? listed_load(value) : named_load(*holder);
  }

 private:
  // named_load() reads a file; relative names are relative to the scenario, those of --set to the
  // working folder.
  ExpertLoad named_load(const ObjectReader& holder) const {
    const std::string name = holder.text(leaf_);
    if (name == "even" || name.empty()) return {};
    const std::string path =
        section_.is_upper(&holder) ? name : resolve_path(holder.where().file, name);
    check_readable(path);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return read_expert_load(path);
    holder.problem(leaf_,
                   fmt::format("there is no file {}; allowed: even, a CSV file of the tokens "
                               "of each expert, or a list of them",
                               path));
    return {};
  }
  // [tokens, tokens], or a list of such lists.
  static ExpertLoad listed_load(const ValueReader& value) {
    ExpertLoad::Rows rows;
    const std::vector<ValueReader> entries = value.list();
    const bool nested = !entries.empty() && entries.front().is_list();
    const std::vector<ValueReader> lists = nested ? entries : std::vector{value};
    for (const ValueReader& list : lists) {
      std::vector<double> row;
      double sum = 0;
      for (const ValueReader& entry : list.list()) {
        row.push_back(entry.real({0, 1e15}));
        sum += row.back();
      }
      if (sum <= 0) {
        list.problem("has no tokens; allowed: a list of the tokens of each expert, one above 0");
        return {};
      }
      if (!rows.empty() && row.size() != rows.front().size()) {
        list.problem(fmt::format("has {} experts, and the list before has {}", row.size(),
                                 rows.front().size()));
        return {};
      }
      rows.push_back(std::move(row));
    }
    return ExpertLoad{std::move(rows)};
  }

  template <class Module>
  static std::string modules_text() {
    std::string text;
    for (const auto& entry : words_of(Module{}))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", entry.text);
    return text;
  }
  IntegerRange range() const {
    return {static_cast<std::int64_t>(*key_.least), static_cast<std::int64_t>(*key_.greatest)};
  }
  const Layered& section_;
  const Key& key_;
  std::string leaf_;
};

// Whether `section` has it.
bool read_field(const Layered& section, const LayoutField& field, LayoutText& text) {
  const std::string name = field.key.path.substr(field.key.path.rfind('.') + 1);  // npos + 1 is 0
  const FieldReader read{section, field.key, name};
  Layout& layout = text.layout;
  std::visit([&](auto member) { read(layout.*member); }, field.member);
  return section.has(name);
}

bool is_overlap(const LayoutField& field) {
  return field.key.path.starts_with("overlap.");
}
// Read by itself; the others lie in mappings.
bool is_plain(const LayoutField& field) {
  return field.key.path.find('.') == std::string::npos;
}

Followed note_of(const Preset& preset, const LayoutDefault& row, std::string from, std::string to) {
  return {fmt::format("layout.{}", row.key), std::move(from), std::move(to),
          fmt::format("{} ({})", text_of(preset), row.why), true};
}

// PresetFiller sets keys that a file may leave open and a preset sets.
class PresetFiller {
 public:
  explicit PresetFiller(const Preset& preset) : preset_{preset} {}

  // This fill() is for scenarios.
  void fill(const LayoutField& field, Layout& layout) {
    fill(field, layout, [&](const LayoutDefault& row) {
      return row.key == message_overlap_key || preset_.fills_scenarios();
    });
  }
  // `said`: keys that are known already, which only fixed defaults change.
  void fill(const LayoutField& field, const std::set<std::string_view>& said, Layout& layout) {
    fill(field, layout,
         [&](const LayoutDefault& row) { return row.fixed || !said.contains(row.key); });
  }
  void forget(const std::string& key) { filled_.erase(key); }
  void forget_overlaps() {
    std::erase_if(filled_, [](const auto& item) { return item.first.starts_with("overlap."); });
  }
  void tell(std::vector<Followed>& notes) const {
    for (const auto& [key, note] : filled_)
      notes.push_back(note);
  }

 private:
  template <class Takes>
  void fill(const LayoutField& field, Layout& layout, Takes takes) {
    const std::string before = value_text(layout, field);
    for (const LayoutDefault& row : preset_.layout) {
      if (row.key != field.key.path || !takes(row)) continue;
      row.set(layout);
      if (value_text(layout, field) != before)
        filled_[std::string{row.key}] = note_of(preset_, row, before, value_text(layout, field));
    }
  }

  const Preset& preset_;
  std::map<std::string, Followed, std::less<>> filled_;
};

// Keys of mappings but overlap, which has a short form: compression: {gradients: top_k}.
void read_mappings(const Layered& section, PresetFiller& filler, LayoutText& text) {
  for (const char* name : {"packing", "bf16_layers", "lora", "compression", "offload",
                           "local_steps", "servers", "moe"}) {
    const Layered mapping = section.object(name);
    const std::string prefix = std::string{name} + ".";
    for (const LayoutField& field : layout_fields())
      if (field.key.path.starts_with(prefix) && read_field(mapping, field, text))
        filler.forget(field.key.path);
  }
}

void read_placement(const Layered& section, LayoutText& text) {
  Layout& layout = text.layout;
  const ObjectReader* holder = section.holder("placement");
  if (!holder) return;
  std::vector<Dimension> order;
  for (const ValueReader& entry : holder->list("placement")) {
    const std::string name = entry.text();
    const std::optional<Dimension> dimension = from_word<Dimension>(name);
    if (!dimension) {
      entry.problem(fmt::format("'{}' is no dimension; allowed: tp, cp, dp, pp", name));
      return;
    }
    order.push_back(*dimension);
  }
  // A file without context parallelism does not say where its ranks lie: behind the tensor ranks.
  const bool follows = layout.context_parallel > 1 && section.overridden("context_parallel") &&
                       !section.is_upper(holder);
  if (follows && std::count(order.begin(), order.end(), Dimension::context) == 0) {
    const auto tensor = std::find(order.begin(), order.end(), Dimension::tensor);
    if (tensor != order.end()) order.insert(tensor + 1, Dimension::context);
    text.followed.push_back(
        {"layout.placement", "an order without cp", "cp behind tp", "context_parallel is above 1"});
  }
  std::vector<Dimension> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Dimension> all{Dimension::tensor, Dimension::context, Dimension::data,
                             Dimension::pipeline};
  const bool whole = sorted == all;
  all.erase(all.begin() + 1);
  if (!whole && (sorted != all || layout.context_parallel > 1)) {
    holder->problem("placement", layout.context_parallel > 1
                                     ? "is an order of tp, cp, dp and pp, fastest first, each once"
                                     : "is an order of tp, dp and pp, fastest first, each once");
    return;
  }
  layout.placement = order;
}

// `overlap: false` and `overlap: true` are short for all but tensor_products; keys of --set go on
// top of a file's short form.
void read_overlap(const Layered& section, const Execution& runs, PresetFiller& filler,
                  LayoutText& text) {
  Layout& layout = text.layout;
  const ObjectReader* holder = section.scalar_holder("overlap");
  if (holder) {
    filler.forget_overlaps();
    const bool all = holder->boolean("overlap");
    layout.overlap_gradients = layout.overlap_parameters = layout.overlap_pipeline = all;
    layout.overlap_tensor_wgrad = all && !runs.symmetric_memory;
    if (section.is_upper(holder)) return;
  }
  const Layered overlap = section.object("overlap");
  for (const LayoutField& field : layout_fields())
    if (is_overlap(field) && read_field(overlap, field, text)) filler.forget(field.key.path);
  if (layout.overlap_tensor_wgrad && runs.symmetric_memory && overlap.has("tensor_wgrad"))
    overlap.problem("tensor_wgrad",
                    "is Megatron-LM's, and torchtitan waits for a reduction where it is called; "
                    "allowed there: false, and tensor_products for AsyncTP");
}

std::vector<int> read_list(const ObjectReader& holder, std::string_view key, int most) {
  std::vector<int> counts;
  for (const ValueReader& entry : holder.list(key))
    counts.push_back(static_cast<int>(entry.integer({0, most})));
  if (counts.empty()) holder.problem(key, "is an empty list");
  return counts;
}

void read_split(const Layered& section, LayoutText& text) {
  constexpr std::string_view chunk = "layers_per_chunk";
  constexpr std::string_view stage = "layers_per_stage";
  const bool by_stage = splits_by_stage(section);
  if (section.has(chunk) && section.has(stage) &&
      section.overridden(chunk) == section.overridden(stage))
    section.problem(stage, "excludes layers_per_chunk: give one of them");
  for (const std::string_view key : {chunk, stage}) {
    const ObjectReader* holder = section.holder(key);
    if (!holder || (key == stage) != by_stage) continue;
    const ValueReader value = holder->at(key);
    if (value.is_list()) {
      (key == chunk ? text.chunks : text.stages) = read_list(*holder, key, layout_limits::layers);
    } else if (value.is_object() && key == chunk) {
      const ObjectReader ends = value.object();
      text.first = static_cast<int>(ends.integer("first", {0, layout_limits::layers}));
      text.last = static_cast<int>(ends.integer("last", {0, layout_limits::layers}));
    } else if (value.peek_text() != "even") {
      holder->problem(key, key == chunk
                               ? "is 'even', a list with the layers of each chunk, or "
                                 "{first: N, last: N} with an even split between them"
                               : "is 'even' or a list with the layers of each pipeline stage");
    }
  }
}

void read_replica_batches(const Layered& section, Layout& layout) {
  constexpr std::string_view key = "replica_batches";
  const ObjectReader* holder = section.holder(key);
  if (holder == nullptr) return;
  const ValueReader value = holder->at(key);
  if (value.is_list())
    layout.replica_batches = read_list(*holder, key, 1'000'000);
  else if (value.peek_text() != "even")
    holder->problem(key, "is 'even' or a list with the micro-batches of each replica");
}

// {first: a, last: b}: the chunks between hold equal numbers.
std::vector<int> with_ends(int first, int last, int chunks, int layers, const Layered& section) {
  const int between = layers - first - last;
  if (chunks < 3 || between < 0 || between % (chunks - 2) != 0) {
    section.problem("layers_per_chunk",
                    fmt::format("{} layers less {} in the first and {} in the last chunk leave {}, "
                                "which do not spread evenly over the other {} chunks",
                                layers, first, last, between, std::max(0, chunks - 2)));
    return {};
  }
  std::vector<int> split(static_cast<std::size_t>(chunks), between / (chunks - 2));
  split.front() = first;
  split.back() = last;
  return split;
}

// Layers of whole stages over their virtual stages: evenly, but the first stage gives its earliest
// chunks fewer (they hold the embedding) and the last stage its latest (they hold the head).
std::vector<int> over_virtual_stages(const std::vector<int>& stages, const Layout& layout,
                                     const Layered& section) {
  const int depth = layout.pipeline_parallel;
  const int repeats = layout.virtual_stages;
  if (static_cast<int>(stages.size()) != depth) {
    section.problem("layers_per_stage", fmt::format("lists {} stages, but pipeline_parallel is {}",
                                                    stages.size(), depth));
    return {};
  }
  std::vector<int> split(static_cast<std::size_t>(depth * repeats), 0);
  for (int stage = 0; stage < depth; ++stage) {
    const int layers = stages[static_cast<std::size_t>(stage)];
    const int fewer = (repeats - layers % repeats) % repeats;  // chunks that hold one less
    if (fewer > 0 && stage != 0 && stage != depth - 1) {
      section.problem("layers_per_stage",
                      fmt::format("{} layers of stage {} do not divide into {} virtual stages; "
                                  "list every chunk with layers_per_chunk",
                                  layers, stage, repeats));
      return {};
    }
    const int most = divide_up(layers, repeats);
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const bool short_one = stage == 0 ? repeat < fewer : repeat >= repeats - fewer;
      const int chunk = repeat * depth + stage;
      split[static_cast<std::size_t>(chunk)] = most - (short_one ? 1 : 0);
    }
  }
  return split;
}

}  // namespace

bool splits_by_stage(const Layered& section) {
  return section.has("layers_per_stage") && !section.overridden("layers_per_chunk");
}

bool says_message_overlap(const Layered& section) {
  return section.scalar_holder("overlap") != nullptr || section.object("overlap").has("pipeline");
}

LayoutText read_layout(const Layered& section, const Execution& runs, const Preset& preset) {
  LayoutText text;
  PresetFiller filler{preset};
  for (const LayoutField& field : layout_fields()) {
    if (field.set_default) field.set_default(text.layout, runs);
    filler.fill(field, text.layout);
    if (is_plain(field) && read_field(section, field, text)) filler.forget(field.key.path);
  }
  text.has_data_parallel = section.has("data_parallel");
  text.has_sequence_length = section.has("sequence_length");
  text.has_message_overlap = says_message_overlap(section);
  section.require("global_batch");
  read_placement(section, text);
  read_overlap(section, runs, filler, text);
  read_mappings(section, filler, text);
  read_split(section, text);
  read_replica_batches(section, text.layout);
  filler.tell(text.followed);
  return text;
}

LayoutText read_layout(const Layered& section, const Execution& runs, const Preset& preset,
                       const LayoutBase& base) {
  LayoutText text;
  text.layout = base.layout;
  PresetFiller filler{preset};
  for (const LayoutField& field : layout_fields()) {
    const bool is_said = base.said.contains(field.key.path);
    if (field.set_default && !is_said) field.set_default(text.layout, runs);
    filler.fill(field, base.said, text.layout);
    if (is_plain(field) && read_field(section, field, text)) filler.forget(field.key.path);
  }
  read_placement(section, text);
  read_overlap(section, runs, filler, text);
  read_mappings(section, filler, text);
  read_split(section, text);
  filler.tell(text.followed);
  return text;
}

void fill_message_overlap(const Preset& preset, LayoutText& text) {
  if (text.has_message_overlap) return;
  std::erase_if(text.followed, [&](const Followed& note) {
    return note.is_default && note.key == fmt::format("layout.{}", message_overlap_key);
  });
  const std::string before = value_text(Layout{}, layout_field(message_overlap_key));
  if (const LayoutDefault* row = set_message_overlap(preset, text.layout))
    text.followed.push_back(
        note_of(preset, *row, before, value_text(text.layout, layout_field(message_overlap_key))));
}

void spread_layers(const LayoutText& text, int layers, const Layered& section, Layout& layout) {
  if (!text.chunks.empty()) layout.layers_per_chunk = text.chunks;
  if (text.first)
    layout.layers_per_chunk = with_ends(*text.first, *text.last, layout.chunks(), layers, section);
  if (!text.stages.empty())
    layout.layers_per_chunk = over_virtual_stages(text.stages, layout, section);
}

void split_as_preset(const Preset& preset, const Model& model, const Layered& section,
                     LayoutText& text) {
  if (!preset.split || section.has("layers_per_chunk") || section.has("layers_per_stage")) return;
  std::vector<int> split = preset.split(model, text.layout);
  if (split.empty()) return;
  text.layout.layers_per_chunk = std::move(split);
  text.followed.push_back({"layout.layers_per_chunk", "even",
                           value_text(text.layout, layout_field("layers_per_chunk")),
                           fmt::format("{} (stages by parameters)", text_of(preset)), true});
}

}  // namespace sim
