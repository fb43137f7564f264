// Checks of a layout for a model. Every sentence names what is allowed.
#include <algorithm>
#include <numeric>
#include <set>

#include "sim/base/machine_memory.hpp"
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;
constexpr double most_ops = 2e7;  // of one rank: about 3 GB of program
// Bytes of memory for each operator of a program, from planning to the report: measured with GPT-2
// 124M and Llama 3.1 70B, 0.3 to 5.8 million operators, 155 to 170 bytes each.
constexpr double operator_bytes = 170;
constexpr std::int64_t most_v_shaped_batches = 100'000;
constexpr double most_bytes = 1e17;  // of one tensor: far below the range of 64 bits

class Checker : private LayoutProblemList {
 public:
  Checker(const Layout& layout, const Model& model) : layout_{layout}, model_{model} {}

  std::vector<LayoutProblem> run() {
    if (!sizes()) return std::move(problems);  // the checks below divide by the sizes
    batch();
    check_tensor(layout_, model_, *this);
    check_experts(layout_, model_, *this);
    check_hybrid_layers(layout_, model_, *this);
    sequence();
    context();
    pipeline();
    layers();
    sharding();
    recomputation();
    formats();
    check_compression(layout_, model_, *this);
    check_offload(layout_, model_, *this);
    check_recompute_modules(layout_, model_, *this);
    check_loss(layout_, model_, *this);
    check_adapters(layout_, model_, *this);
    check_packing(layout_, model_, *this);
    check_vision(layout_, model_, *this);
    check_quantized(layout_, model_, *this);
    check_local_steps(layout_, model_, *this);
    check_servers(layout_, model_, *this);
    if (problems.empty()) absurd_sizes();
    return std::move(problems);
  }

 private:
  void at_least_one(const char* key, std::int64_t value) {
    if (value < 1) problem(key, "{} is {}; allowed: 1 or more", key, value);
  }

  bool sizes() {
    at_least_one("tensor_parallel", layout_.tensor_parallel);
    at_least_one("context_parallel", layout_.context_parallel);
    at_least_one("pipeline_parallel", layout_.pipeline_parallel);
    at_least_one("data_parallel", layout_.data_parallel);
    at_least_one("expert_parallel", layout_.expert_parallel);
    at_least_one("virtual_stages", layout_.virtual_stages);
    at_least_one("pipeline_runs", layout_.pipeline_runs);
    at_least_one("micro_batch", layout_.micro_batch);
    at_least_one("global_batch", layout_.global_batch);
    at_least_one("sequence_length", layout_.sequence_length);
    if (!problems.empty()) return false;
    const double ranks = static_cast<double>(layout_.tensor_parallel) * layout_.context_parallel *
                         layout_.pipeline_parallel * layout_.data_parallel;
    if (ranks > static_cast<double>(most_ranks)) {
      problem("data_parallel",
              "tensor_parallel x context_parallel x pipeline_parallel x data_parallel is {:.0f} "
              "ranks; allowed: up to {}",
              ranks, most_ranks);
    }
    if (static_cast<double>(layout_.micro_batch) * layout_.data_parallel > 1e15) {
      problem("micro_batch", "micro_batch x data_parallel is more than 1e15 sequences");
    }
    if (static_cast<double>(layout_.virtual_stages) * layout_.pipeline_parallel > 32'767) {
      problem("virtual_stages",
              "pipeline_parallel x virtual_stages is {:.0f} model chunks; "
              "allowed: up to 32767",
              static_cast<double>(layout_.virtual_stages) * layout_.pipeline_parallel);
    }
    placement();
    return problems.empty();
  }

  void placement() {
    for (const auto& [dimension, text] : words_of(Dimension{})) {
      const auto times = std::count(layout_.placement.begin(), layout_.placement.end(), dimension);
      const bool needed = dimension != Dimension::context || layout_.context_parallel > 1;
      if (times == 1 || (times == 0 && !needed)) continue;
      problem("placement",
              "placement names {} {} times; it must name tp, cp, dp and pp once each (cp only with "
              "context_parallel)",
              text, times);
    }
  }

  void batch() {
    const std::int64_t unit = layout_.micro_batch * layout_.data_parallel;
    if (layout_.global_batch % unit == 0) return;
    problem("global_batch",
            "global_batch is {}, no multiple of micro_batch x data_parallel = {} x {} = {}",
            layout_.global_batch, layout_.micro_batch, layout_.data_parallel, unit);
  }

  void sequence() {
    const std::int64_t s = layout_.sequence_length;
    if (model_.is_layer_list && s != 1) {
      problem("sequence_length", "sequence_length is {}, but {} is a list of layers; allowed: 1", s,
              model_.name);
    }
    if (model_.fixed_sequence > 0 && s != model_.fixed_sequence) {
      problem("sequence_length", "sequence_length is {}, but {} always has {} tokens", s,
              model_.name, model_.fixed_sequence);
    }
    // A table of positions has so many rows; other positions go on beyond what was trained (a note
    // of the report).
    const bool table = !model_.shape || model_.shape->positions == Positions::learned;
    if (table && model_.max_sequence > 0 && s > model_.max_sequence) {
      problem("sequence_length", "sequence_length is {}, but {} has positions for {} tokens", s,
              model_.name, model_.max_sequence);
    }
    const std::int64_t chunk = model_.shape ? model_.shape->attention_chunk : 0;
    if (is_shorter(chunk, s))
      problem("sequence_length",
              "sequence_length is {}, but {} attends in chunks of {} tokens, which is not modelled "
              "for longer sequences; allowed: up to {}",
              s, model_.name, chunk, chunk);
    if (!layout_.sequence_parallel) return;
    if (layout_.tensor_parallel == 1) {
      problem("sequence_parallel", "sequence_parallel needs tensor_parallel of 2 or more; it is 1");
    } else if (layout_.context_parallel > 1) {
      if (layout_.tokens_held() % layout_.tensor_parallel == 0) return;
      problem("sequence_parallel",
              "sequence_length / context_parallel is {}, which tensor_parallel = {} does not "
              "divide; sequence_parallel splits the tokens",
              layout_.tokens_held(), layout_.tensor_parallel);
    } else if (s % layout_.tensor_parallel != 0) {
      problem(
          "sequence_parallel",
          "sequence_length is {}, which tensor_parallel = {} does not divide; sequence_parallel "
          "splits the tokens",
          s, layout_.tensor_parallel);
    }
  }

  void context() {
    const int c = layout_.context_parallel;
    if (layout_.context_heads > 0 && layout_.context_exchange != ContextExchange::all_to_all_ring)
      problem("context_heads",
              "context_heads is {}, but context_exchange is {}; allowed: 0, or context_exchange "
              "all_to_all_ring",
              layout_.context_heads, word(layout_.context_exchange));
    if (c == 1) return;
    if (model_.is_layer_list) {
      problem("context_parallel",
              "context_parallel is {}, but {} is a list of layers, which has no sequence to split; "
              "allowed: 1",
              c, model_.name);
      return;
    }
    for (const Block* block : blocks_of_each_kind(model_)) {
      for (const ModelOp& op : block->ops) {
        if (!op.once_per_sequence) continue;
        problem("context_parallel",
                "context_parallel is {}, but {} of {} reads one token of each sequence, which one "
                "rank alone would hold; allowed: 1",
                c, op.name, model_.name);
        return;
      }
    }
    const bool both = layout_.context_exchange == ContextExchange::all_to_all_ring;
    const bool by_heads = both || layout_.context_exchange == ContextExchange::all_to_all;
    if (both) parts_of_context();
    if (by_heads) heads_of_context();
    const bool halves = model_.attention.causal || by_heads;
    const std::int64_t unit = std::int64_t{c} * (halves ? 2 : 1);
    if (layout_.sequence_length % unit != 0) {
      problem("sequence_length", "sequence_length is {}, no multiple of {}context_parallel = {}{}",
              layout_.sequence_length, halves ? "2 x " : "", unit,
              !halves    ? ""
              : by_heads ? " (two chunks a rank)"
                         : " (two chunks a rank, which balance a causal mask)");
    }
    window_of_context();
    // The parts are merged by log-sum-exps, which only flash kernels give (Transformer Engine
    // refuses the unfused backend too: dot_product_attention/utils.py, get_attention_backend).
    if (!is_flash(layout_.attention)) {
      problem("attention",
              "attention is unfused, but context_parallel is {}; allowed: flash, flash-1, flash-2",
              c);
    }
  }

  // Transformer Engine, context_parallel.py, attn_forward_func_with_cp: a window with "a2a" and
  // "all_gather" only, a learned softmax (sinks) with "a2a" only; PyTorch's context_parallel takes
  // is_causal and no other mask.
  void window_of_context() {
    if (model_.shape && model_.shape->attention_sinks)
      problem("context_parallel",
              "context_parallel is {}, but {} has attention sinks, for which it is not modelled "
              "(Transformer Engine has them with all-to-alls alone); allowed: 1",
              layout_.context_parallel, model_.name);
    const std::int64_t window = model_.shape ? model_.shape->window : 0;
    if (!is_shorter(window, layout_.sequence_length)) return;
    const bool whole = (layout_.context_exchange == ContextExchange::all_gather ||
                        layout_.context_exchange == ContextExchange::all_to_all) &&
                       model_.execution.context == ContextForm::transformer_engine;
    if (whole) return;
    problem("context_parallel",
            "context_parallel is {}, but layers of {} see a window of {} tokens of {}; allowed: 1, "
            "or framework megatron with context_exchange all_gather or all_to_all",
            layout_.context_parallel, model_.name, window, layout_.sequence_length);
  }

  // Transformer Engine takes groups of one rank for all_to_all or ring alone (context_parallel.py,
  // attn_forward_func_with_cp). Scans exchange heads among all context ranks.
  void parts_of_context() {
    const int c = layout_.context_parallel, inner = layout_.context_heads;
    if (inner < 2 || inner >= c || c % inner != 0)
      problem("context_heads",
              "context_heads is {} with context_exchange all_to_all_ring and context_parallel {}; "
              "allowed: a divisor between them, or context_exchange all_to_all or ring",
              inner, c);
    if (model_.is_hybrid())
      problem("context_exchange",
              "context_exchange is all_to_all_ring, but {} has layers of several kinds, for which "
              "it is not modelled; allowed: ring, all_gather, all_to_all",
              model_.name);
  }

  // Transformer Engine, context_parallel.py, AttnFuncWithCPAndQKVOA2A: "The number of attention
  // heads needs to be divisible by CP size!", of queries and of keys, those of a tensor rank.
  void heads_of_context() {
    const int c = layout_.head_ranks();
    if (model_.execution.context != ContextForm::transformer_engine)
      problem("context_exchange",
              "context_exchange is {}, but PyTorch's context_parallel ({}) has none; "
              "allowed: ring, all_gather",
              word(layout_.context_exchange), word(model_.execution.context));
    const int t = layout_.tensor_parallel;
    const std::int64_t heads = model_.attention.heads;
    std::int64_t keys = model_.attention.kv_heads;
    if (model_.is_hybrid()) {
      if (!model_.shape->hybrid.has(Mixer::attention)) return;
      for (const LayerKind& kind : model_.shape->hybrid.kinds())
        if (kind.kv_heads > 0) keys = std::gcd(keys, kind.kv_heads);
    }
    if (heads % t != 0 || keys % t != 0) return;  // said already
    if (heads / t % c == 0 && keys / t % c == 0) return;
    if (heads / t % c == 0 && c % (keys / t) == 0 && model_.execution.repeats_key_heads) return;
    const std::string_view key = layout_.context_exchange == ContextExchange::all_to_all
                                     ? "context_parallel"
                                     : "context_heads";
    problem("context_exchange",
            "context_exchange is {}, but tensor_parallel x {} = {} x {} does "
            "not divide {} heads and {} key/value heads; allowed: {} {}, or "
            "context_exchange ring, all_gather",
            word(layout_.context_exchange), key, t, c, heads, keys, key,
            divisors_of({heads / t, keys / t}));
  }

  void pipeline() {
    const ScheduleRules& rules = rules_of(layout_.schedule);
    const std::string_view name = word(layout_.schedule);
    if (rules.sends_beside && !layout_.overlap_pipeline)
      problem("overlap_pipeline",
              "overlap.pipeline is false, but under schedule {} ranks that waited for their sends "
              "would wait for each other; allowed: true",
              name);
    chunks(rules, name);
    if (layout_.global_batch % (layout_.micro_batch * layout_.data_parallel) != 0) return;
    if (layout_.micro_batches() > 1'000'000) {
      problem("micro_batch", "{} micro-batches per step; allowed: up to 1000000",
              layout_.micro_batches());
    }
    if (!runs()) return;
    if (rules.chunks != RankChunks::one && layout_.pipeline_parallel == 1)
      return problem("schedule", "schedule {} needs pipeline_parallel of 2 or more; it is 1", name);
    rounds(rules, name);
  }

  void chunks(const ScheduleRules& rules, std::string_view name) {
    const int has = layout_.virtual_stages;
    if (rules.chunks == RankChunks::one && has > 1)
      problem("virtual_stages",
              "virtual_stages is {}, but schedule {} has one model chunk per stage; allowed: 1, or "
              "schedule interleaved",
              has, name);
    else if (rules.chunks == RankChunks::v && has != rules.least_chunks)
      problem("virtual_stages",
              "virtual_stages is {}, but schedule {} has two model chunks per stage; allowed: 2",
              has, name);
    else if (has < rules.least_chunks)
      problem(
          "virtual_stages",
          "virtual_stages is {}, but schedule {} has several model chunks per stage; allowed: {} "
          "or more",
          has, name, rules.least_chunks);
  }

  // Whether the step divides into its runs.
  bool runs() {
    const std::int64_t batches = layout_.micro_batches(), times = layout_.pipeline_runs;
    if (times > 1 && layout_.pipeline_parallel == 1) {
      problem("pipeline_runs",
              "pipeline_runs is {}, but there is no pipeline: pipeline_parallel is 1; allowed: 1",
              times);
      return false;
    }
    if (batches % times == 0) return true;
    problem("pipeline_runs",
            "pipeline_runs is {}, which does not divide {} micro-batches; "
            "allowed: {}",
            times, batches, divisors_of({batches}));
    return false;
  }

  // Checks the micro-batches of a run of the schedule.
  void rounds(const ScheduleRules& rules, std::string_view name) {
    const std::int64_t stages = layout_.pipeline_parallel, batches = layout_.run_batches();
    const char* counted = layout_.pipeline_runs > 1
                              ? "global_batch / micro_batch / data_parallel / pipeline_runs"
                              : "global_batch / micro_batch / data_parallel";
    if (rules.whole_rounds && batches % stages != 0)
      problem("global_batch",
              "{} micro-batches ({}), no multiple of pipeline_parallel = {}, as schedule {} needs",
              batches, counted, stages, name);
    const std::int64_t least = rules.batches_per_stage * stages;
    if (batches < least)
      problem("global_batch", "{} micro-batches ({}); schedule {} needs {} or more", batches,
              counted, name, least);
    if (rules.chunks == RankChunks::v && batches > most_v_shaped_batches)
      problem("micro_batch", "{} micro-batches per step under schedule {}; allowed: up to {}",
              batches, name, most_v_shaped_batches);
  }

  void layers() {
    const auto count = static_cast<std::int64_t>(model_.layers.size());
    const std::int64_t chunks = layout_.chunks();
    if (count > 32'767) problem("pipeline_parallel", "{} layers; allowed: up to 32767", count);
    if (layout_.layers_per_chunk.empty()) {
      if (count % chunks != 0) {
        problem("pipeline_parallel",
                "{} layers do not divide over {} model chunks (pipeline_parallel x "
                "virtual_stages); list layers_per_chunk, {} entries",
                count, chunks, chunks);
      } else if (count == 0 && chunks > 1) {
        problem("pipeline_parallel", "{} has no layers to split; allowed: 1", model_.name);
      }
      return;
    }
    listed_layers(count, chunks);
  }

  void listed_layers(std::int64_t count, std::int64_t chunks) {
    const auto& listed = layout_.layers_per_chunk;
    const auto entries = static_cast<std::int64_t>(listed.size());
    if (entries != chunks) {
      problem("layers_per_chunk",
              "layers_per_chunk has {} entries; pipeline_parallel x virtual_stages is {}", entries,
              chunks);
      return;
    }
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < entries; ++i) {
      const int layers = listed[static_cast<std::size_t>(i)];
      sum += layers;
      // The first and the last chunk have the embedding and the head to do.
      const bool may_be_empty =
          (i == 0 && !model_.input.ops.empty()) || (i == entries - 1 && !model_.output.ops.empty());
      if (layers < (may_be_empty ? 0 : 1)) {
        problem("layers_per_chunk", "entry {} of layers_per_chunk is {}; allowed: {} or more",
                i + 1, layers, may_be_empty ? 0 : 1);
      }
    }
    if (sum != count) {
      problem("layers_per_chunk", "layers_per_chunk sums to {}; {} has {} layers", sum, model_.name,
              count);
    }
  }

  void sharding() {
    const int stage = layout_.zero_stage;
    if (stage < 0 || stage > 3) {
      problem("zero_stage", "zero_stage is {}; allowed: 0, 1, 2, 3", stage);
    }
    const int group = layout_.shard_group;
    const int replicas = layout_.replicas();
    if (group < 0 || (group > 0 && replicas % group != 0)) {
      problem("shard_group",
              "shard_group is {}, which does not divide data_parallel{} = {}; allowed: {}, or 0 "
              "for all",
              group, layout_.context_parallel > 1 ? " x context_parallel" : "", replicas,
              divisors_of({replicas}));
    }
    if (group > 0 && group < replicas && stage == 0) {
      problem("shard_group", "shard_group is {}, but zero_stage 0 shards nothing", group);
    }
    const Execution& runs = model_.execution;
    const bool whole = stage == 2 && runs.all_reduces_gradients;
    if (runs.gradient_buckets != GradientBuckets::sliced &&
        (whole || (stage >= 2 && runs.gradient_buckets == GradientBuckets::copied)))
      problem("zero_stage",
              "zero_stage is {} with gradient_buckets {}{}; allowed: zero_stage 0, 1, or "
              "gradient_buckets sliced",
              stage, word(runs.gradient_buckets), whole ? " and all_reduces_gradients" : "");
    if (layout_.prefetch_layers < 0) {
      problem("prefetch_layers", "prefetch_layers is {}; allowed: 0 or more",
              layout_.prefetch_layers);
    }
    // A split backward pass finishes the gradients of several micro-batches in turns, so they
    // cannot be freed one micro-batch at a time. Held units keep them whole anyway.
    const bool held = stage == 3 && runs.holds_units && layout_.pipeline_parallel > 1;
    if (stage >= 2 && splits_backward(layout_.schedule) && !held) {
      problem("zero_stage",
              "zero_stage is {}, but schedule {} keeps full gradients; allowed: 0, 1{}", stage,
              word(layout_.schedule),
              stage == 2 && runs.holds_units ? ", 3" : ", or 3 with framework.defer_gradient_sync");
    }
    if (layout_.bucket && layout_.bucket->count() < 1)
      problem("bucket", "bucket is 0 bytes; allowed: 1 B or more");
    if (layout_.buckets > 0 && (layout_.bucket || layout_.first_bucket))
      problem("buckets", "buckets is {} beside {}; allowed: one of them", layout_.buckets,
              layout_.bucket ? "bucket" : "first_bucket");
    if (layout_.buckets > 0 && model_.execution.bucket_rule != BucketRule::megatron)
      problem("buckets", "buckets is {}, which is Megatron-LM's; allowed: 0", layout_.buckets);
    if (layout_.first_bucket && layout_.first_bucket->count() < 1)
      problem("first_bucket", "first_bucket is 0 bytes; allowed: 1 B or more");
  }

  void recomputation() {
    if (layout_.recompute_every < 1) {
      problem("recompute_every", "recompute_every is {}; allowed: 1 or more",
              layout_.recompute_every);
    } else if (layout_.recompute_every > 1 && layout_.recompute != Recompute::full) {
      problem("recompute_every",
              "recompute_every is {}, but recompute is {}; allowed: 1, or "
              "recompute full",
              layout_.recompute_every, word(layout_.recompute));
    }
    if (layout_.recompute_layers < 0)
      problem("recompute_layers", "recompute_layers is {}; allowed: 0 or more",
              layout_.recompute_layers);
    else if (layout_.recompute_layers > 0 && layout_.recompute != Recompute::full)
      problem("recompute_layers",
              "recompute_layers is {}, but recompute is {}; allowed: 0, or recompute full",
              layout_.recompute_layers, word(layout_.recompute));
    else if (layout_.recompute_layers > 0 && layout_.recompute_every > 1)
      problem("recompute_layers",
              "recompute_layers is {} beside recompute_every {}; allowed: one of them",
              layout_.recompute_layers, layout_.recompute_every);
    if (layout_.recompute == Recompute::operators && layout_.context_parallel > 1)
      problem("recompute",
              "recompute is operators, and context_parallel {}; allowed: none, selective, full",
              layout_.context_parallel);
    if (layout_.recompute == Recompute::selective && model_.is_layer_list) {
      problem("recompute",
              "recompute is selective, but {} is a list of layers, which has no "
              "attention; allowed: none, full",
              model_.name);
    }
  }

  void eight_bit_parameters() {
    if (!layout_.eight_bit_parameters) return;
    const bool possible =
        can_have_eight_bit_parameters(model_.execution, layout_.zero_stage, layout_.shard_ranks());
    if (is_quantized(layout_.compute_dtype) && possible) return;
    const EightBit software = model_.execution.eight_bit;
    if (scales_rows(software))
      return problem("fp8_parameters",
                     "fp8_parameters is true and framework.fp8 {}; torchao gathers "
                     "weights with scales of rows in 16 bits",
                     word(software));
    const bool torchao = software == EightBit::torchao;
    problem("fp8_parameters",
            "fp8_parameters is true with {} products and zero_stage {} over {} ranks; "
            "allowed: fp8 products, zero_stage {}",
            word(layout_.compute_dtype), layout_.zero_stage, layout_.shard_ranks(),
            torchao ? "3 over 2 or more (framework.fp8 is torchao)" : "0 to 2");
  }

  void optimizer() {
    const int moments = moments_of(layout_.optimizer);
    const DType weights = layout_.activation_dtype;
    check_states(layout_, model_, *this);
    const bool plain = layout_.state_format == StateFormat::plain;
    if (plain && !layout_.master_weights && weights != DType::fp32 && moments > 0 &&
        (layout_.moment_dtype != weights || layout_.dtype_of_moment(1) != weights))
      problem("master_weights",
              "master_weights is false, but the weights are {} and the moments {}; without fp32 "
              "copies an optimizer needs activation_dtype fp32, or moment_dtype {}",
              word(weights), word(layout_.moment_dtype), word(weights));
    const bool own_kernels = !plain || layout_.optimizer == OptimizerKind::adafactor;
    if (!own_kernels && eager_passes(layout_.optimizer) == 0 &&
        model_.execution.optimizer == OptimizerForm::eager)
      problem("optimizer",
              "optimizer is {} and framework.optimizer eager: PyTorch has no {}; allowed: adam, "
              "momentum, sgd, or framework.optimizer fused",
              word(layout_.optimizer), word(layout_.optimizer));
  }

  void formats() {
    const auto stored = [&](const char* key, DType dtype, bool wire) {
      if (is_quantized(dtype) || dtype == DType::tf32) {
        problem(key, "{} is {}; allowed: fp32, bf16, fp16 ({})", key, word(dtype),
                wire ? "a format that is summed" : "a format that is stored");
      }
    };
    stored("activation_dtype", layout_.activation_dtype, false);
    stored("gradient_dtype", layout_.gradient_dtype, false);
    stored("reduce_dtype", layout_.reduce_dtype, true);
    eight_bit_parameters();
    optimizer();
  }

  void absurd_sizes() {
    const double tokens =
        static_cast<double>(layout_.micro_batch) * static_cast<double>(layout_.sequence_length);
    double widest = static_cast<double>(model_.attention.heads) *
                    static_cast<double>(layout_.sequence_length) * 8;
    double ops = 0;
    for (const Block* block : blocks_of_each_kind(model_)) {
      for (const ModelOp& op : block->ops) {
        const auto copies = static_cast<double>(op.per_token) * layout_.expert_imbalance;
        widest = std::max({widest, copies * static_cast<double>(op.in_features),
                           copies * static_cast<double>(op.out_features), op.forward_elements,
                           op.backward_elements, op.saved_elements});
      }
    }
    // Slices of a ring; the exchanges of an all-to-all and the copies around them.
    const double slices =
        layout_.context_parallel > 1 ? std::max(2.0 * layout_.context_parallel, 24.0) : 0.0;
    for (const Block& layer : model_.layers)
      ops += static_cast<double>(layer.ops.size()) + slices;
    if (tokens * widest * 16 > most_bytes) {
      problem("micro_batch",
              "a micro-batch of {} x {} tokens has a tensor of more than 1e16 elements",
              layout_.micro_batch, layout_.sequence_length);
    }
    const double per_rank =
        5 * ops / layout_.pipeline_parallel * static_cast<double>(layout_.micro_batches());
    if (per_rank > most_ops) {
      problem("global_batch",
              "about {:.0f} million operators per rank ({} micro-batches); allowed: up to {:.0f} "
              "million",
              per_rank / 1e6, layout_.micro_batches(), most_ops / 1e6);
      return;
    }
    // The programs of all stages are held at once.
    const double all = per_rank * layout_.pipeline_parallel * operator_bytes;
    const auto machine = static_cast<double>(machine_memory().count());
    if (all > machine) {
      problem(
          "global_batch",
          "about {:.0f} million operators in {} stages ({} micro-batches), of {:.1f} GB of "
          "memory where {:.1f} GB is to be had; allowed here: up to {} micro-batches",
          per_rank * layout_.pipeline_parallel / 1e6, layout_.pipeline_parallel,
          layout_.micro_batches(), all / 1e9, machine / 1e9,
          static_cast<std::int64_t>(machine / all * static_cast<double>(layout_.micro_batches())));
    }
  }

  const Layout& layout_;
  const Model& model_;
};

}  // namespace

std::vector<const Block*> blocks_of_each_kind(const Model& model) {
  std::vector<const Block*> all{&model.input, &model.output};
  for (const Block* layer : model.layers_of_each_kind())
    all.push_back(layer);
  return all;
}

std::vector<LayoutProblem> layout_problems(const Layout& layout, const Model& model) {
  if (layout.replica_batches.empty()) return Checker{layout, model}.run();
  std::vector<LayoutProblem> problems = replica_problems(layout);
  if (!problems.empty()) return problems;
  for (const int batches :
       std::set<int>(layout.replica_batches.begin(), layout.replica_batches.end())) {
    problems = Checker{layout.with_even_batches(batches), model}.run();
    for (LayoutProblem& problem : problems)
      if (problem.key == "global_batch") problem.key = "replica_batches";
    if (!problems.empty()) break;
  }
  return problems;
}

}  // namespace sim
