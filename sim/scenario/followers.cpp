#include "sim/scenario/followers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sim/layout/layout_fields.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace sim {
namespace {

// The largest divisor of `of` up to `most`; 1 at least.
std::int64_t divisor_up_to(std::int64_t most, std::int64_t of) {
  for (std::int64_t d = std::min(most, of); d > 1; --d)
    if (of % d == 0) return d;
  return 1;
}

bool sets_any(const Layered& section, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return section.overridden(key); });
}

class Followers {
 public:
  Followers(LayoutText& text, const Model& model, int gpus, int gpus_per_node,
            const Layered& section)
      : text_{text},
        layout_{text.layout},
        model_{model},
        gpus_{gpus},
        gpus_per_node_{gpus_per_node},
        section_{section} {}

  void run() {
    sequence_parallel();
    data_parallel();
    replica_batches();
    if (std::int64_t{layout_.data_parallel} * inner() != gpus_) return;  // an error of its own
    experts();
    micro_batch();
    pipeline_runs();
    virtual_stages();
    layers();
    shard_group();
    cut_products();
    recompute_every();
    recompute_modules();
    eight_bit_parameters();
  }

 private:
  bool set(std::string_view key) const { return section_.overridden(key); }

  template <class Value>
  void tell(std::string_view key, const Value& from, const Value& to, const std::string& why) {
    text_.followed.push_back({.key = fmt::format("layout.{}", key),
                              .from = fmt::format("{}", from),
                              .to = fmt::format("{}", to),
                              .why = why});
  }

  template <class Value>
  void move(std::string_view key, Value& value, Value to, std::string why) {
    if (value == to || set(key)) return;
    tell(key, value, to, std::move(why));
    value = to;
  }

  std::int64_t inner() const {
    return std::int64_t{layout_.tensor_parallel} * layout_.context_parallel *
           layout_.pipeline_parallel;
  }

  void sequence_parallel() {
    if (layout_.tensor_parallel == 1)
      move("sequence_parallel", layout_.sequence_parallel, false, "tensor_parallel is 1");
    else if (model_.has_experts())
      move("sequence_parallel", layout_.sequence_parallel, true,
           "a mixture of experts with tensor_parallel needs it");
  }

  void data_parallel() {
    if (gpus_ % inner() != 0) return;
    if (!text_.has_data_parallel) layout_.data_parallel = static_cast<int>(gpus_ / inner());
    move("data_parallel", layout_.data_parallel, static_cast<int>(gpus_ / inner()),
         fmt::format("{} GPUs / (tensor_parallel {}{} x pipeline_parallel {})", gpus_,
                     layout_.tensor_parallel,
                     layout_.context_parallel > 1
                         ? fmt::format(" x context_parallel {}", layout_.context_parallel)
                         : std::string{},
                     layout_.pipeline_parallel));
  }

  // A list is meant for the replicas and the batch that the file has.
  void replica_batches() {
    std::vector<int>& own = layout_.replica_batches;
    if (own.empty() || set("replica_batches")) return;
    const std::int64_t batches = std::accumulate(own.begin(), own.end(), std::int64_t{0});
    if (std::ssize(own) == layout_.data_parallel &&
        batches * layout_.micro_batch == layout_.global_batch)
      return;
    own.clear();
    tell("replica_batches", std::string{"the file's"}, std::string{"even"},
         fmt::format("global_batch {} on data_parallel {}", layout_.global_batch,
                     layout_.data_parallel));
  }

  void experts() {
    if (!model_.has_experts()) {
      move("expert_parallel", layout_.expert_parallel, 1, "the model has no experts");
      move("expert_tensor_parallel", layout_.expert_tensor_parallel, 0, "the model has no experts");
      return;
    }
    const std::int64_t ranks =
        std::int64_t{layout_.tensor_parallel} * layout_.context_parallel * layout_.data_parallel;
    const std::string of_stage = fmt::format(
        "it divides the {} ranks of a stage (tensor_parallel x context_parallel x data_parallel)",
        ranks);
    const Experts& experts = model_.shape->experts;
    if (layout_.expert_tensor_parallel > 0)
      move("expert_tensor_parallel", layout_.expert_tensor_parallel,
           static_cast<int>(divisor_up_to(layout_.expert_tensor_parallel,
                                          std::gcd(ranks, experts.feed_forward))),
           of_stage);
    const std::int64_t tensor = std::max(1, layout_.expert_tensor());
    if (ranks % tensor == 0)
      move("expert_parallel", layout_.expert_parallel,
           static_cast<int>(
               divisor_up_to(layout_.expert_parallel, std::gcd(ranks / tensor, experts.count))),
           of_stage + fmt::format(" and {} experts", experts.count));
    move("expert_imbalance", layout_.expert_imbalance,
         std::min(layout_.expert_imbalance, double{1} * layout_.expert_parallel),
         fmt::format("at most expert_parallel = {}", layout_.expert_parallel));
  }

  // Whether the user himself asks for the interleaved schedule, whose micro-batches are a multiple
  // of the stages.
  bool wants_interleaved() const {
    return is_interleaved(layout_.schedule) && (set("virtual_stages") || set("schedule"));
  }

  void micro_batch() {
    if (!layout_.replica_batches.empty()) return;
    const std::int64_t replicas = layout_.data_parallel;
    if (layout_.global_batch % replicas != 0) return;
    const std::int64_t each = layout_.global_batch / replicas;
    const int stages = layout_.pipeline_parallel;
    const auto goes = [&](std::int64_t size) {
      return each % size == 0 && (!wants_interleaved() || each / size % stages == 0);
    };
    std::int64_t size = std::min(layout_.micro_batch, each);
    while (size > 1 && !goes(size))
      --size;
    if (goes(size))
      move("micro_batch", layout_.micro_batch, size,
           fmt::format("global_batch {} / data_parallel {} is {} sequences", layout_.global_batch,
                       replicas, each));
  }

  // pipeline_runs() keeps as many as the file has, if they divide the micro-batches.
  void pipeline_runs() {
    const std::int64_t unit = layout_.micro_batch * layout_.data_parallel;
    if (layout_.pipeline_runs == 1 || layout_.global_batch % unit != 0) return;
    if (layout_.pipeline_parallel == 1)
      return move("pipeline_runs", layout_.pipeline_runs, 1, "pipeline_parallel is 1");
    const std::int64_t batches = layout_.micro_batches();
    std::int64_t runs = std::min<std::int64_t>(layout_.pipeline_runs, batches);
    const auto goes = [&](std::int64_t count) {
      return batches % count == 0 && (!is_interleaved(layout_.schedule) ||
                                      batches / count % layout_.pipeline_parallel == 0);
    };
    while (runs > 1 && !goes(runs))
      --runs;
    move("pipeline_runs", layout_.pipeline_runs, static_cast<int>(runs),
         fmt::format("{} micro-batches", batches));
  }

  // Why the interleaved schedule cannot be; empty: it can.
  std::string not_interleaved() const {
    const int stages = layout_.pipeline_parallel;
    if (set("schedule") && !is_interleaved(layout_.schedule))
      return fmt::format("schedule is {}", word(layout_.schedule));
    if (stages == 1) return "pipeline_parallel is 1";
    if (layout_.global_batch % (layout_.micro_batch * layout_.data_parallel) != 0) return {};
    if (layout_.run_batches() % stages == 0) return {};
    return fmt::format("{} micro-batches are no multiple of pipeline_parallel {}",
                       layout_.run_batches(), stages);
  }

  // With one model chunk per stage the schedule is 1F1B, with more the interleaved one.
  void schedule(Schedule wanted, const std::string& why) {
    if (layout_.schedule == wanted || set("schedule")) return;
    if (section_.has("schedule")) tell("schedule", word(layout_.schedule), word(wanted), why);
    layout_.schedule = wanted;
  }

  void virtual_stages() {
    if (is_v_shaped(layout_.schedule)) {
      if (!set("virtual_stages"))
        move("virtual_stages", layout_.virtual_stages, 2,
             fmt::format("schedule {} has two model chunks per stage", word(layout_.schedule)));
      return;
    }
    if (set("virtual_stages") && layout_.virtual_stages > 1 && layout_.pipeline_parallel > 1)
      schedule(Schedule::interleaved, "virtual_stages is above 1");
    if (const std::string why = not_interleaved(); !why.empty() && !set("virtual_stages")) {
      move("virtual_stages", layout_.virtual_stages, 1, why);
      if (layout_.schedule == Schedule::interleaved) schedule(Schedule::one_f_one_b, why);
      return;
    }
    if (set("virtual_stages") || layout_.virtual_stages == 1) return;
    const int most = most_virtual_stages();
    const std::string why = fmt::format("{} layers over pipeline_parallel {}", model_.layers.size(),
                                        layout_.pipeline_parallel);
    move("virtual_stages", layout_.virtual_stages, most, why);
    if (most == 1) schedule(Schedule::one_f_one_b, why);
  }

  // most_virtual_stages() are as many as the file has, if the layers suffice; where they can be
  // spread evenly, evenly. In a listed split the first and the last chunk may be empty.
  int most_virtual_stages() const {
    const auto count = static_cast<std::int64_t>(model_.layers.size());
    const int stages = layout_.pipeline_parallel;
    if (!is_listed() && count % stages == 0)
      return static_cast<int>(divisor_up_to(layout_.virtual_stages, count / stages));
    const auto most = static_cast<int>((count + (is_listed() ? 2 : 0)) / stages);
    return std::clamp(layout_.virtual_stages, 1, std::max(1, most));
  }

  bool is_listed() const { return !text_.chunks.empty() || text_.first || !text_.stages.empty(); }

  // The ends of a split are meant for the number of chunks that the file has.
  bool ends_go() const {
    const auto chunks_of_file = [&](std::string_view key) {
      const std::optional<std::string> text = section_.text_of_file(key);
      return text.value_or("1");
    };
    const bool same =
        chunks_of_file("pipeline_parallel") == std::to_string(layout_.pipeline_parallel) &&
        chunks_of_file("virtual_stages") == std::to_string(layout_.virtual_stages);
    const int between = static_cast<int>(model_.layers.size()) - *text_.first - *text_.last;
    const int chunks = layout_.chunks();
    return same && chunks > 2 && between >= 0 && between % (chunks - 2) == 0;
  }

  static bool sums_to(const std::vector<int>& list, std::size_t layers) {
    return std::accumulate(list.begin(), list.end(), std::size_t{0}) == layers;
  }

  bool stages_go() const {
    const auto depth = static_cast<std::size_t>(layout_.pipeline_parallel);
    if (text_.stages.size() != depth || !sums_to(text_.stages, model_.layers.size())) return false;
    for (std::size_t stage = 1; stage + 1 < depth; ++stage)
      if (text_.stages[stage] % layout_.virtual_stages != 0) return false;
    return true;
  }

  bool split_goes() const {
    const auto chunks = static_cast<std::size_t>(layout_.chunks());
    if (!text_.chunks.empty())
      return text_.chunks.size() == chunks && sums_to(text_.chunks, model_.layers.size());
    if (text_.first) return ends_go();
    if (!text_.stages.empty()) return stages_go();
    return model_.layers.size() % chunks == 0;
  }

  void layers() {
    const bool by_stage = splits_by_stage(section_);
    const std::string_view key = by_stage ? "layers_per_stage" : "layers_per_chunk";
    const auto count = static_cast<int>(model_.layers.size());
    const int chunks = layout_.chunks();
    if (set(key) || chunks < 1 || split_goes() || chunks > count + 2) return;
    const std::string from = is_listed() ? "the file's" : "even";
    text_.chunks = nearly_even(count, chunks);
    text_.first.reset();
    text_.last.reset();
    text_.stages.clear();
    tell("layers_per_chunk", from,
         fmt::format("{} to {}", *std::min_element(text_.chunks.begin(), text_.chunks.end()),
                     *std::max_element(text_.chunks.begin(), text_.chunks.end())),
         fmt::format("{} layers over pipeline_parallel {} x virtual_stages {}, as evenly as "
                     "possible",
                     count, layout_.pipeline_parallel, layout_.virtual_stages));
  }

  void shard_group() {
    const int group = layout_.shard_group;
    const int replicas = layout_.replicas();
    if (group <= 0 || replicas % group == 0) return;
    move("shard_group", layout_.shard_group, static_cast<int>(divisor_up_to(group, replicas)),
         fmt::format("it divides the {} replicas", replicas));
  }

  void cut_products() {
    if (!layout_.cuts_products() || set("overlap")) return;
    if (!tensor_within_nodes(layout_, gpus_per_node_)) {
      tell("overlap.tensor_products", true, false, "the tensor ranks are not on one node");
      layout_.overlap_tensor_products = false;
    }
  }

  void recompute_every() {
    if (layout_.recompute != Recompute::full)
      move("recompute_every", layout_.recompute_every, 1,
           fmt::format("recompute is {}", word(layout_.recompute)));
    if (layout_.recompute != Recompute::full)
      move("recompute_layers", layout_.recompute_layers, 0,
           fmt::format("recompute is {}", word(layout_.recompute)));
  }

  void recompute_modules() {
    if (layout_.recompute == Recompute::selective || layout_.recompute_modules.empty() ||
        set("recompute_modules"))
      return;
    const LayoutField& field = layout_field("recompute_modules");
    const std::string before = value_text(layout_, field);
    layout_.recompute_modules.clear();
    tell("recompute_modules", before, value_text(layout_, field),
         fmt::format("recompute is {}", word(layout_.recompute)));
  }

  void eight_bit_parameters() {
    if (!is_quantized(layout_.compute_dtype) && !set("eight_bit_parameters"))  // its old name
      move("fp8_parameters", layout_.eight_bit_parameters, false,
           fmt::format("compute_dtype is {}", word(layout_.compute_dtype)));
  }

  LayoutText& text_;
  Layout& layout_;
  const Model& model_;
  std::int64_t gpus_;
  int gpus_per_node_;
  const Layered& section_;
};

}  // namespace

bool knob_is_set(const Layered& top) {
  return sets_any(top, {"model", "cluster", "layout"});
}

void follow_knobs(LayoutText& text, const Model& model, int gpus, int gpus_per_node,
                  const Layered& layout) {
  Followers{text, model, gpus, gpus_per_node, layout}.run();
}

std::int64_t gpus_for_replicas(const LayoutText& text, const Layered& top) {
  const Layered layout = top.object("layout");
  const bool alone =
      layout.overridden("data_parallel") &&
      !sets_any(layout, {"tensor_parallel", "context_parallel", "pipeline_parallel"}) &&
      !sets_any(top.object("cluster"), {"nodes", "gpus", "path"}) &&
      !(top.scalar_holder("cluster") != nullptr && top.is_upper(top.scalar_holder("cluster")));
  if (!alone) return 0;
  return std::int64_t{text.layout.tensor_parallel} * text.layout.context_parallel *
         text.layout.pipeline_parallel * text.layout.data_parallel;
}

std::vector<int> nearly_even(int layers, int chunks) {
  std::vector<int> split(static_cast<std::size_t>(chunks), layers / chunks);
  const int more = layers % chunks;
  // All but the last, then all but both ends, then from the second chunk on.
  const std::size_t first = more == chunks - 1 ? 0 : 1;
  for (int i = 0; i < more; ++i)
    ++split[first + static_cast<std::size_t>(i)];
  return split;
}

std::string text_of(const Followed& followed) {
  if (followed.is_default)
    return fmt::format("{} is {} instead of {}, the default of {}", followed.key, followed.to,
                       followed.from, followed.why);
  return fmt::format("{} follows: {} instead of {} ({})", followed.key, followed.to, followed.from,
                     followed.why);
}

}  // namespace sim
