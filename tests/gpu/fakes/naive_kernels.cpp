// The kernels of the CUDA backend, played by those of the host backend when their stream gets to
// them: the oracle of the real ones, and what the backend's own tests run on.
#include <algorithm>
#include <tuple>

#include "real/cuda/prepare.hpp"
#include "real/host/kernels/host_kernels.hpp"
#include "real/host/kernels/kernels_context.hpp"
#include "real/host/kernels/kernels_dropout.hpp"
#include "real/host/kernels/kernels_lamb.hpp"
#include "real/host/kernels/kernels_latent.hpp"
#include "real/host/kernels/kernels_shared_heads.hpp"
#include "tests/gpu/fakes/fake_device.hpp"

namespace real {
namespace {

// Kernels of different formats are different kernels.
template <class First, class... Others>
std::uint64_t type_of(const First& first, const Others&...) {
  if constexpr (requires { first.dtype; }) return static_cast<std::uint64_t>(first.dtype);
  if constexpr (requires { first.heads.dtype; })
    return static_cast<std::uint64_t>(first.heads.dtype);
  if constexpr (std::is_same_v<First, sim::DType>) return static_cast<std::uint64_t>(first);
  return 0;
}

// Late turns a host's function into one that puts it on its stream, the last argument. A function
// that returns something (the size of a workspace) is called at once.
template <auto kernel>
struct Late;
template <class Result, class... Parameters, Result (*kernel)(Parameters...)>
struct Late<kernel> {
  static Result call(Parameters... arguments) {
    if constexpr (std::is_void_v<Result>) {
      const kernels::StreamHandle stream =
          std::get<sizeof...(arguments) - 1>(std::tie(arguments...));
      stream->device.load({reinterpret_cast<std::uint64_t>(kernel), type_of(arguments...)});
      fakes::enqueue_call(stream, [=] { kernel(arguments...); });
    } else {
      return kernel(arguments...);
    }
  }
};

// The same of a function in a table.
template <auto table, auto member>
struct LateOf;
template <class Kernels, class... Parameters, const Kernels& (*table)(),
          void (*Kernels::*member)(Parameters...)>
struct LateOf<table, member> {
  static void call(Parameters... arguments) {
    const auto kernel = table().*member;
    const kernels::StreamHandle stream = std::get<sizeof...(arguments) - 1>(std::tie(arguments...));
    stream->device.load({reinterpret_cast<std::uint64_t>(kernel), type_of(arguments...)});
    fakes::enqueue_call(stream, [=] { kernel(arguments...); });
  }
};

// The host has no table of cosines. Here is one, to see that it is filled before it is read.
std::int64_t rotary_table_bytes(std::int64_t sequence, std::int64_t head_dim) {
  return sequence * head_dim * static_cast<std::int64_t>(sizeof(float));
}
void fill_rotary_table(std::int64_t sequence, std::int64_t head_dim, double, float* table,
                       kernels::StreamHandle stream) {
  fakes::enqueue_call(stream, [=] { std::fill_n(table, sequence * head_dim, 1.0F); });
}
void rotary(const kernels::HeadsShape& shape, bool backward, const float* table, const void* input,
            void* output, kernels::StreamHandle stream) {
  fakes::enqueue_call(stream, [=] {
    host::rotary(shape, backward, table, input, output, stream);
    if (*table == 1.0F) return;
    const host::Out rows{shape.dtype, output, shape.tokens * shape.row()};
    std::ranges::fill(std::span<float>{rows}, *table);
  });
}

}  // namespace

#define STEPCAST_KERNEL(name) .name = Late<&host::name>::call,
const kernels::Table& cuda_kernels() {
  static const kernels::Table table = [] {
    kernels::Table all{STEPCAST_KERNELS(STEPCAST_KERNEL)};
    all.rotary_table_bytes = rotary_table_bytes;
    all.fill_rotary_table = fill_rotary_table;
    all.rotary = rotary;
    return all;
  }();
  return table;
}

const kernels::ContextTable& cuda_context() {
  static constexpr kernels::ContextTable table{STEPCAST_CONTEXT_KERNELS(STEPCAST_KERNEL)};
  return table;
}

const kernels::SharedHeadsTable& cuda_shared_heads() {
  static constexpr kernels::SharedHeadsTable table{STEPCAST_SHARED_HEADS_KERNELS(STEPCAST_KERNEL)};
  return table;
}
#undef STEPCAST_KERNEL

const kernels::DropoutTable& cuda_dropout() {
  using Table = kernels::DropoutTable;
  static constexpr Table table{.drop = LateOf<host_dropout, &Table::drop>::call};
  return table;
}

const kernels::LambTable& cuda_lamb() {
  using Table = kernels::LambTable;
  static constexpr Table table{.lamb = LateOf<host::host_lamb, &Table::lamb>::call,
                               .one_bit_lamb = nullptr};
  return table;
}

const kernels::LatentTable& cuda_latent() {
  using host::host_latent;
  using Table = kernels::LatentTable;
  static constexpr Table table{
      .split_rows = LateOf<host_latent, &Table::split_rows>::call,
      .join_rows = LateOf<host_latent, &Table::join_rows>::call,
      .put_latent_heads = LateOf<host_latent, &Table::put_latent_heads>::call,
      .latent_gradients = LateOf<host_latent, &Table::latent_gradients>::call};
  return table;
}

}  // namespace real
