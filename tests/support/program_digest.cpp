#include "tests/support/program_digest.hpp"

#include <bit>
#include <string>
#include <vector>

namespace sim::test {
namespace {

template <class T>
std::uint64_t bits_of(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  else
    return static_cast<std::uint64_t>(value);
}

template <class... T>
void add_all(Digest& to, T... values) {
  (to.add(bits_of(values)), ...);
}

std::uint64_t text_digest(const std::string& text) {
  Digest digest;
  for (const char c : text)
    digest.add(bits_of(c));
  return digest.value();
}

std::uint64_t kernel_digest(const Kernel& k) {
  Digest to;
  add_all(to, k.kind, k.dtype, k.part, k.scales, k.grouping, k.causal, k.attention, k.m, k.n, k.k,
          k.batch, k.heads, k.kv_heads, k.values, k.window, k.flops.count(), k.bytes.count(),
          k.beside.count(), k.strided.count(), k.transposed.count(), k.in_sequence.count(),
          k.disk_read.count(), k.disk_written.count(), k.launches, k.spared_sms, k.abreast);
  if (k.known) to.add(bits_of(k.known->count()));
  for (const std::int64_t rows : k.uneven)
    to.add(bits_of(rows));
  return to.value();
}

std::uint64_t collective_digest(const Collective& c) {
  Digest to;
  const ExpertRouting& r = c.routing;
  add_all(to, c.kind, c.group, c.dtype, c.bytes.count(), c.carrier, c.blocks, r.experts,
          r.per_token, r.groups, r.groups_per_token, r.consecutive, r.imbalance);
  for (const double block : r.of_blocks)
    to.add(bits_of(block));
  return to.value();
}

std::uint64_t transfer_digest(const Transfer& transfer) {
  Digest to;
  add_all(to, transfer.peer, transfer.dtype, transfer.bytes.count());
  return to.value();
}

std::uint64_t scratch_digest(const Scratch& scratch) {
  Digest to;
  for (const ScratchStep& step : scratch)
    add_all(to, step.moment, step.tensor, step.bytes.count());
  return to.value();
}

template <class Item, class Of>
std::vector<std::uint64_t> digests(const std::vector<Item>& items, Of of) {
  std::vector<std::uint64_t> all;
  all.reserve(items.size());
  for (const Item& item : items)
    all.push_back(of(item));
  return all;
}

// Buffers by the order in which operators use them first.
class BufferNumbers {
 public:
  explicit BufferNumbers(const std::vector<Buffer>& buffers)
      : buffers_{buffers}, number_(buffers.size(), unused) {}

  void add(BufferId id, Digest& to) {
    if (id.value >= buffers_.size()) return to.add(unused);
    std::uint32_t& number = number_[id.value];
    if (number == unused) {
      number = next_++;
      const Buffer& buffer = buffers_[id.value];
      add_all(to, buffer.size.count(), buffer.category, buffer.persistent, buffer.tensors,
              buffer.host.count());
    }
    to.add(number);
  }

 private:
  static constexpr std::uint32_t unused = UINT32_MAX;
  const std::vector<Buffer>& buffers_;
  std::vector<std::uint32_t> number_;
  std::uint32_t next_ = 0;
};

void add_operators(const Program& program, BufferNumbers& buffers, Digest& to) {
  const auto kernels = digests(program.kernels, kernel_digest);
  const auto collectives = digests(program.collectives, collective_digest);
  const auto transfers = digests(program.transfers, transfer_digest);
  const auto names = digests(program.names, text_digest);
  const auto work = [&](std::size_t i) {
    const std::uint32_t at = program.work[i];
    const OpKind kind = program.kind[i];
    if (kind == OpKind::collective) return collectives[at];
    if (kind == OpKind::send || kind == OpKind::recv) return transfers[at];
    return at < kernels.size() ? kernels[at] : bits_of(at);
  };
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const OpLabel& label = program.label[i];
    add_all(to, program.kind[i], program.stream[i], program.pass[i], program.action[i],
            program.subject[i], names[label.name], label.layer, label.chunk, label.microbatch,
            work(i));
    for (const OpId before : program.dependencies(OpId{i}))
      to.add(before.value);
    for (const BufferUse& use : program.buffer_uses(OpId{i})) {
      add_all(to, use.access, use.role, use.part);
      buffers.add(use.buffer, to);
    }
  }
}

void add_parameters(const Program& program, BufferNumbers& buffers, Digest& to) {
  for (const Site& s : program.sites)
    add_all(to, s.place, s.layer, s.op, s.bucket, s.first, s.elements, s.summed_first, s.summed,
            s.tensors, s.tied);
  for (const ParameterBucket& b : program.parameter_buckets) {
    add_all(to, b.elements, b.padded, b.shards, b.of_experts, b.fragment);
    for (const BufferId id :
         {b.weight, b.weight_shard, b.gradient, b.gradient_shard, b.optimizer, b.host_gradient,
          b.host_states, b.host_weight, b.weight_secondary, b.outer, b.residual})
      buffers.add(id, to);
    for (const MatrixPlace& matrix : b.matrices)
      add_all(to, matrix.first, matrix.rows, matrix.columns);
  }
}

void add_allocation(const Allocation& a, Digest& to) {
  add_all(to, a.expandable, a.max_split_size.count(), a.copies_gathered, a.flat_parameters,
          a.separate_gradients, a.moved_parameters, a.parameter_buffers, a.recorded, a.held_logits,
          a.loss_metrics, a.master_weights, a.master_bytes, a.moment_bytes);
}

}  // namespace

void add_program(const Program& program, Digest& to) {
  BufferNumbers buffers{program.buffers};
  add_operators(program, buffers, to);
  add_parameters(program, buffers, to);
  for (const HostWait& wait : program.host_waits)
    add_all(to, wait.before.value, wait.until.value);
  const auto scratches = digests(program.scratches, scratch_digest);
  for (const auto& [op, scratch] : program.scratch_of_op)
    add_all(to, op.value, scratches[scratch]);
  add_allocation(program.allocation, to);
  add_all(to, program.stage, program.size());
}

std::uint64_t digest_of(std::span<const Program> programs) {
  Digest digest;
  for (const Program& program : programs)
    add_program(program, digest);
  return digest.value();
}

}  // namespace sim::test
