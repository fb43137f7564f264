#include "tests/unit/plan/models.hpp"

#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"

namespace sim::test {
namespace {

ModelOp op(std::string name, ModelOpKind kind, TensorSplit split, std::int64_t in,
           std::int64_t out) {
  ModelOp made;
  made.name = std::move(name);
  made.kind = kind;
  made.split = split;
  made.in_features = in;
  made.out_features = out;
  return made;
}

ModelOp linear(std::string name, TensorSplit split, std::int64_t in, std::int64_t out) {
  ModelOp made = op(std::move(name), ModelOpKind::linear, split, in, out);
  made.weights = in * out;
  made.biases = out;
  made.backward_elements = static_cast<double>(out);
  (split == TensorSplit::column || split == TensorSplit::vocabulary ? made.saved_input_elements
                                                                    : made.saved_elements) =
      static_cast<double>(in);
  return made;
}

ModelOp norm(std::string name, std::int64_t hidden) {
  ModelOp made = op(std::move(name), ModelOpKind::norm, TensorSplit::sequence, hidden, hidden);
  made.biases = 2 * hidden;
  made.forward_elements = 2.0 * static_cast<double>(hidden);
  made.backward_elements = 3.0 * static_cast<double>(hidden);
  made.saved_elements = static_cast<double>(hidden);
  return made;
}

ModelOp dropout_add(std::string name, std::int64_t hidden) {
  const auto h = static_cast<double>(hidden);
  ModelOp made =
      op(std::move(name), ModelOpKind::elementwise, TensorSplit::sequence, hidden, hidden);
  made.forward_elements = 3.5 * h;
  made.backward_elements = 2.5 * h;
  made.saved_fixed_bytes = h;
  return made;
}

Block layer(const GptShape& shape) {
  const std::int64_t h = shape.hidden;
  const auto e = static_cast<double>(h);
  ModelOp attention = op("attention", ModelOpKind::attention, TensorSplit::inner, 3 * h, h);
  attention.forward_elements = 4 * e;
  attention.backward_elements = 8 * e;
  attention.saved_elements = 3 * e;
  ModelOp gelu = op("gelu", ModelOpKind::elementwise, TensorSplit::inner, 4 * h, 4 * h);
  gelu.forward_elements = 8 * e;
  gelu.backward_elements = 12 * e;
  gelu.saved_elements = 4 * e;
  Block block;
  block.name = "layer";
  block.output_elements = h;
  block.ops = {norm("norm_1", h),
               linear("qkv", TensorSplit::column, h, 3 * h),
               attention,
               linear("projection", TensorSplit::row, h, h),
               dropout_add("attention_dropout", h),
               norm("norm_2", h),
               linear("mlp_up", TensorSplit::column, h, 4 * h),
               gelu,
               linear("mlp_down", TensorSplit::row, 4 * h, h),
               dropout_add("mlp_dropout", h)};
  block.ops[2].backward_reads_output = true;
  block.ops[4].residual_of = 0;
  block.ops[9].residual_of = 5;
  return block;
}

TransformerShape small_shape(const char* name, int layers) {
  TransformerShape shape;
  shape.name = name;
  shape.layers = layers;
  shape.hidden = 32;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 8;
  shape.feed_forward = 64;
  return shape;
}

void set_llama(TransformerShape& shape) {
  shape.norm = NormKind::rms;
  shape.activation = Activation::swiglu;
  shape.positions = Positions::rotary;
}

}  // namespace

Ranks ranks_of(const Plan& plan, std::uint32_t rank, GroupRole role) {
  const std::uint32_t index = plan.group_of[rank][static_cast<std::size_t>(role)];
  Ranks ranks;
  if (index == Plan::no_group) return ranks;
  for (const RankId member : plan.groups[index].ranks)
    ranks.push_back(member.value);
  return ranks;
}

Model gpt(const GptShape& shape) {
  const std::int64_t h = shape.hidden;
  const std::int64_t v = shape.vocabulary;
  Model model;
  model.name = "test-gpt";
  model.family = "gpt2";
  model.hidden = h;
  model.vocabulary = v;
  model.attention = {.heads = shape.heads,
                     .kv_heads = shape.heads,
                     .head_dim = h / shape.heads,
                     .value_dim = h / shape.heads,
                     .dropout = true};
  model.feed_forward = 4 * h;
  model.tied_embedding = shape.tied;
  ModelOp table = op("embedding", ModelOpKind::embedding, TensorSplit::vocabulary, v, h);
  table.weights = v * h;
  table.forward_elements = 2.0 * static_cast<double>(h);
  table.backward_elements = 3.0 * static_cast<double>(h);
  model.input = {"embedding", {table}, h};
  model.layers.assign(static_cast<std::size_t>(shape.layers), layer(shape));
  ModelOp head = linear("head", TensorSplit::vocabulary, h, v);
  head.biases = 0;
  head.backward_elements = 0;
  head.tied_to_embedding = shape.tied;
  if (shape.tied) head.weights = 0;
  ModelOp loss = op("loss", ModelOpKind::cross_entropy, TensorSplit::vocabulary, v, 1);
  loss.forward_elements = 4.0 * static_cast<double>(v);
  loss.backward_elements = 3.0 * static_cast<double>(v);
  loss.saved_fixed_bytes = 4.0 * static_cast<double>(v);
  model.output = {"head", {norm("final_norm", h), head, loss}, 1};
  return model;
}

Model transformer(int kind, int layers) {
  TransformerShape shape = small_shape("test-transformer", layers);
  shape.vocabulary = 300;
  shape.max_sequence = 256;
  const bool llama = kind == 1 || kind == 2;
  shape.tied_head = kind == 0 || kind == 2;
  if (llama) {
    set_llama(shape);
    shape.max_sequence = 0;
    shape.qk_norm = kind == 2;
  } else {
    shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  }
  if (kind >= 3) shape.activation = Activation::relu;
  if (kind == 3) shape.norm_placement = NormPlacement::post;
  if (kind == 4) shape.projection_dropout = shape.mlp_dropout = shape.embedding_dropout = 0.1;
  return build_transformer(shape);
}

Model newer_transformer(int kind, int layers) {
  TransformerShape shape = small_shape("test-newer", layers);
  set_llama(shape);
  shape.vocabulary = 300;
  shape.max_sequence = 0;
  shape.tied_head = kind == 2;
  if (kind == 0) {
    shape.norm_placement = NormPlacement::reordered;
    shape.qk_norm = shape.qk_norm_whole = true;
  }
  if (kind == 1) {
    shape.norm_placement = NormPlacement::sandwich;
    shape.embedding_scale = shape.attention_softcap = shape.logit_softcap = true;
    shape.window = 32;
    for (int layer = 1; layer < layers; layer += 2)
      shape.full_attention.layers.push_back(layer);
  }
  if (kind == 2) shape.embedding_scale = shape.residual_scale = shape.logit_scale = true;
  if (kind == 3) {
    shape.rotary_share = 0.5;
    for (int layer = 3; layer < layers; layer += 4)
      shape.without_positions.layers.push_back(layer);
  }
  return build_transformer(shape);
}

Model mixture(int kind, int layers) {
  TransformerShape shape = small_shape("test-mixture", layers);
  set_llama(shape);
  shape.vocabulary = 512;
  shape.experts = {.count = 8, .per_token = 2, .feed_forward = 16};
  if (kind == 1) {
    shape.experts.shared_feed_forward = 32;
    shape.experts.first_layer = 1;
    shape.latent = {
        .query_rank = 16, .key_value_rank = 8, .plain_dim = 8, .rotary_dim = 4, .value_dim = 8};
    shape.head_dim = 12;
  }
  return build_transformer(shape);
}

Model layer_list(int layers, std::int64_t weights) {
  ModelOp made = op("conv", ModelOpKind::generic, TensorSplit::sequence, 0, 0);
  made.weights = weights;
  made.forward_flops = Flops{1e6};
  made.backward_flops = Flops{2e6};
  made.forward_elements = 100;
  made.backward_elements = 200;
  made.saved_elements = 50;
  Model model;
  model.name = "test-list";
  model.family = "layers";
  model.is_layer_list = true;
  model.layers.assign(static_cast<std::size_t>(layers), Block{"layer", {made}, 50});
  return model;
}

Layout layout_for(int tensor, int data, int pipeline, int micro_batches) {
  Layout layout;
  layout.tensor_parallel = tensor;
  layout.data_parallel = data;
  layout.pipeline_parallel = pipeline;
  layout.sequence_length = 128;
  layout.global_batch = std::int64_t{micro_batches} * data;
  return layout;
}

Layout context_layout(int ranks, ContextExchange exchange) {
  Layout layout = layout_for(1, 1, 1, 1);
  layout.sequence_length = 1024;
  layout.context_parallel = ranks;
  layout.context_exchange = exchange;
  return layout;
}

void run_compiled(Execution& execution) {
  execution.symmetric_memory = execution.separate_products = true;
  execution.keeps_gathered_inputs = true;
  execution.eight_bit = EightBit::torchao;
}

double gemm_flops(const Program& program) {
  double sum = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.kind[i] == OpKind::gemm) sum += program.kernels[program.work[i]].flops.count();
  return sum;
}

double received_in_layers(const Program& program, int tensor) {
  double sum = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective || program.label[i].layer < 0) continue;
    const Collective& collective = program.collectives[program.work[i]];
    if (collective.group != GroupRole::tensor) continue;
    const bool shift = collective.kind == CollectiveKind::ring_shift;
    sum += static_cast<double>(collective.bytes.count()) * (shift ? 1.0 : (tensor - 1.0) / tensor);
  }
  return sum;
}

int count_in_layer(const Program& program, Action action, Pass pass) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] == action && program.pass[i] == pass && program.label[i].layer == 1)
      ++found;
  }
  return found;
}

}  // namespace sim::test
