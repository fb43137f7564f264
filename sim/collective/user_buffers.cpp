// Communication of a tensor group on one node between buffers that its ranks have registered with
// each other (Transformer Engine, common/comm_gemm_overlap/userbuffers;
// sim/plan/sharding/user_buffers.hpp; PyTorch's symmetric memory,
// sim/plan/sharding/micro_pipeline.hpp). No staging in NCCL's buffers: a byte is read once and
// written once.
//   shift by copy engines   2 t_k + hop + n / B  no SMs: cudaMemcpyAsync into or from a partner's
//                           buffer, between kernels that set a flag there and wait for one here
//                           (userbuffers_send, userbuffers_recv with use_ce; _symmetric_memory,
//                           barrier)
//   gather, scatter         t_k + hop + (p-1)/p n / min(B, S b)    S thread blocks read from all
//                           ranks, or write to them, behind one exchange of flags
//                           (allgather2_userbuff_inplace, reducescatter2_userbuff_stridedoutput)
// t_k: the fixed time of a small kernel on the device; hop: NCCL's Simple step over NVLink; B: the
// links at the share that messages reach; b: what one block copies (nccl_measured.cpp).
#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/collective/algorithms.hpp"

namespace sim {

Form user_buffer_form(const FormInput& in, const Collective& request, double small_kernel) {
  const double hop = hop_seconds(in, Algorithm::ring).intra;
  const double link = in.intra_bw();
  const double reached = in.group.nccl ? link * message_share(in.group.generation) : link;
  const double parts = in.ranks();
  Form form;
  if (request.carrier == Carrier::copy_engines) {
    SIM_CHECK(in.kind == CollectiveKind::ring_shift, word(in.kind));
    form.traffic = in.bytes;
    form.latency = 2 * small_kernel + hop;
    form.transfer = form.traffic / reached;
    form.channels = 0;
    form.memory_bytes = 2 * form.traffic;
  } else {
    form.traffic = (parts - 1) / parts * in.bytes;
    form.latency = small_kernel + hop;
    form.transfer =
        form.traffic / std::min(reached, request.blocks * block_rate(in.group.generation) * 1e9);
    form.channels = request.blocks;
    form.rounds = in.ranks() - 1;
    // Bytes that the other ranks read here, or write, and bytes read or written of the rank's own
    // part.
    form.memory_bytes = 2 * form.traffic + 2 * in.bytes / parts;
  }
  form.link_time = form.traffic / link;
  return form;
}

}  // namespace sim
