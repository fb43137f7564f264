#include "sim/scenario/read_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sim {
namespace {

// Beyond these no cluster exists; they keep products within range.
constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t most_layers = 10'000;
constexpr std::int64_t most_tokens = 1LL << 32;

void read_parallelism(const Layered& section, LayoutText& text) {
  Layout& layout = text.layout;
  layout.tensor_parallel = section.int_or("tensor_parallel", 1, {1, most_ranks});
  layout.context_parallel = section.int_or("context_parallel", 1, {1, most_ranks});
  layout.pipeline_parallel = section.int_or("pipeline_parallel", 1, {1, most_layers});
  text.has_data_parallel = section.has("data_parallel");
  layout.data_parallel = section.int_or("data_parallel", 1, {1, most_ranks});
  layout.expert_parallel = section.int_or("expert_parallel", 1, {1, most_ranks});
  layout.expert_tensor_parallel = section.int_or("expert_tensor_parallel", 0, {0, most_ranks});
  layout.expert_imbalance = section.real_or("expert_imbalance", 1, {.min = 1, .max = 1e6});
  layout.virtual_stages = section.int_or("virtual_stages", 1, {1, most_layers});
  layout.schedule = section.word_or(
      "schedule", layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b);
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

void read_batch(const Layered& section, LayoutText& text) {
  Layout& layout = text.layout;
  text.has_sequence_length = section.has("sequence_length");
  layout.sequence_length = section.integer_or("sequence_length", 0, {1, most_tokens});
  section.require("global_batch");
  layout.global_batch = section.integer_or("global_batch", 1, {1, most_tokens});
  layout.micro_batch = section.integer_or("micro_batch", 1, {1, most_tokens});
}

void read_sharding(const Layered& section, Layout& layout) {
  layout.sequence_parallel = section.boolean_or("sequence_parallel", false);
  layout.zero_stage = section.int_or("zero_stage", 0, {0, 3});
  layout.shard_group = section.int_or("shard_group", 0, {0, most_ranks});
  layout.prefetch_layers = section.int_or("prefetch_layers", 1, {0, most_layers});
  layout.reshard_after_forward = section.boolean_or("reshard_after_forward", true);
  layout.recompute = section.word_or("recompute", Recompute::none);
  layout.recompute_every = section.int_or("recompute_every", 1, {1, most_layers});
  layout.attention = section.word_or("attention", AttentionKernel::flash);
  layout.context_exchange = section.word_or("context_exchange", ContextExchange::ring);
}

// What is left out follows from the compute type, as autocast and Megatron's --bf16 do: 16-bit
// activations beside bf16 and fp8 products, fp32 beside fp32 and tf32.
void read_dtypes(const Layered& section, Layout& layout) {
  layout.compute_dtype = section.word_or("compute_dtype", DType::bf16);
  DType activation = DType::bf16;
  if (layout.compute_dtype == DType::fp16) activation = DType::fp16;
  if (layout.compute_dtype == DType::fp32 || layout.compute_dtype == DType::tf32)
    activation = DType::fp32;
  layout.activation_dtype = section.word_or("activation_dtype", activation);
  layout.gradient_dtype = section.word_or("gradient_dtype", layout.activation_dtype);
  layout.reduce_dtype = section.word_or("reduce_dtype", layout.gradient_dtype);
  layout.eight_bit_parameters = section.boolean_or("eight_bit_parameters", false);
  layout.master_weights =
      section.boolean_or("master_weights", bytes_of(layout.activation_dtype) < 4);
  layout.optimizer = section.word_or("optimizer", OptimizerKind::adam);
  layout.moment_dtype = section.word_or("moment_dtype", DType::fp32);
}

// auto: the framework's.
std::optional<Bytes> read_bucket(const Layered& section, const char* key) {
  const ObjectReader* holder = section.holder(key);
  if (!holder || holder->at(key).peek_text() == "auto") return std::nullopt;
  const Bytes size = section.bytes_or(key, Bytes{1});
  if (size.count() < 1) section.problem(key, "must be at least 1 B");
  return size;
}

void set_overlaps(bool all, const Execution& runs, Layout& layout) {
  layout.overlap_gradients = layout.overlap_parameters = layout.overlap_pipeline = all;
  layout.overlap_tensor_wgrad = all && !runs.symmetric_memory;
  layout.overlap_tensor_products = false;
}

void read_overlap(const Layered& section, const Execution& runs, Layout& layout) {
  layout.bucket = read_bucket(section, "bucket");
  layout.first_bucket = read_bucket(section, "first_bucket");
  // true or false for all of them; keys of --set go on top of a file's.
  const ObjectReader* holder = section.scalar_holder("overlap");
  const bool all = !holder || holder->boolean("overlap");
  if (holder && section.is_upper(holder)) {
    set_overlaps(all, runs, layout);
    return;
  }
  const Layered overlap = section.object("overlap");
  set_overlaps(all, runs, layout);
  layout.overlap_gradients = overlap.boolean_or("gradients", all);
  layout.overlap_parameters = overlap.boolean_or("parameters", all);
  layout.overlap_pipeline = overlap.boolean_or("pipeline", all);
  layout.overlap_tensor_wgrad = overlap.boolean_or("tensor_wgrad", layout.overlap_tensor_wgrad);
  if (layout.overlap_tensor_wgrad && runs.symmetric_memory)
    overlap.problem("tensor_wgrad",
                    "is Megatron-LM's, and torchtitan waits for a reduction where it is called; "
                    "allowed there: false, and tensor_products for AsyncTP");
  layout.overlap_tensor_products = overlap.boolean_or("tensor_products", false);
}

std::vector<int> read_list(const ObjectReader& holder, std::string_view key) {
  std::vector<int> counts;
  for (const ValueReader& entry : holder.list(key))
    counts.push_back(static_cast<int>(entry.integer({0, most_layers})));
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
      (key == chunk ? text.chunks : text.stages) = read_list(*holder, key);
    } else if (value.is_object() && key == chunk) {
      const ObjectReader ends = value.object();
      text.first = static_cast<int>(ends.integer("first", {0, most_layers}));
      text.last = static_cast<int>(ends.integer("last", {0, most_layers}));
    } else if (value.peek_text() != "even") {
      holder->problem(key, key == chunk
                               ? "is 'even', a list with the layers of each chunk, or "
                                 "{first: N, last: N} with an even split between them"
                               : "is 'even' or a list with the layers of each pipeline stage");
    }
  }
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
    const int most = (layers + repeats - 1) / repeats;
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

LayoutText read_layout(const Layered& section, const Execution& runs) {
  LayoutText text;
  read_parallelism(section, text);
  read_placement(section, text);
  read_batch(section, text);
  read_sharding(section, text.layout);
  read_dtypes(section, text.layout);
  read_overlap(section, runs, text.layout);
  read_split(section, text);
  return text;
}

void spread_layers(const LayoutText& text, int layers, const Layered& section, Layout& layout) {
  if (!text.chunks.empty()) layout.layers_per_chunk = text.chunks;
  if (text.first)
    layout.layers_per_chunk = with_ends(*text.first, *text.last, layout.chunks(), layers, section);
  if (!text.stages.empty())
    layout.layers_per_chunk = over_virtual_stages(text.stages, layout, section);
}

}  // namespace sim
