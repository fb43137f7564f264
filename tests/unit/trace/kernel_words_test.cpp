#include "sim/trace/kernel_words.hpp"

#include "sim/trace/collective_words.hpp"
#include "tests/catch.hpp"

using namespace sim;

TEST_CASE("kernels of makers and compilers have a kind", "[trace]") {
  CHECK(kind_of_kernel("Cijk_Alik_Bljk_BBS_BH_MT128x256x32_SN", "") == OpKind::gemm);
  CHECK(kind_of_kernel("void ck_tile::kentry<FmhaFwdKernel>", "") == OpKind::attention);
  CHECK(kind_of_kernel("void ck::kernel_xdl_cshuffle", "") == OpKind::gemm);
  CHECK(kind_of_kernel("triton_red_fused_native_layer_norm_3", "") == OpKind::norm);
  CHECK(kind_of_kernel("triton_poi_fused_add_2", "") == OpKind::elementwise);
  CHECK(kind_of_kernel("triton_tem_fused_mm_1", "") == OpKind::gemm);
  CHECK(kind_of_kernel("softmax_warp_forward", "aten::_log_softmax") == OpKind::cross_entropy);
  CHECK(kind_of_kernel("void cutlass::Kernel2<cutlass_80_tensorop>", "") == OpKind::gemm);
  CHECK(kind_of_kernel("_chunk_scan_fwd_kernel", "") == OpKind::scan);
}

TEST_CASE("kernels of communication are told by their own name, not by their operator's",
          "[trace]") {
  CHECK(kind_of_kernel("void deep_ep::intranode::dispatch<8, 768>", "") == OpKind::collective);
  CHECK(kind_of_kernel("void deep_ep::layout::get_dispatch_layout<256>", "") != OpKind::collective);
  CHECK(kind_of_kernel("vectorized_elementwise_kernel", "nccl:all_reduce") == OpKind::elementwise);
  CHECK(is_communication("rcclGenericKernel"));
  CHECK_FALSE(is_communication("elementwise"));
}

TEST_CASE("a collective is read off the name of its kernel", "[trace]") {
  const auto kind = [](const char* name) { return collective_of_kernel(name).kind; };
  CHECK(kind("ncclDevKernel_AllReduce_Sum_bf16_RING_LL") == CollectiveKind::all_reduce);
  CHECK(kind("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL") == CollectiveKind::reduce_scatter);
  CHECK(kind("ncclDevKernel_AllGather_RING_LL") == CollectiveKind::all_gather);
  CHECK(kind("ncclKernel_Broadcast_RING_LL_Sum_int8_t") == CollectiveKind::broadcast);
  CHECK(kind("ncclDevKernel_Reduce_Sum_bf16_RING_LL") == CollectiveKind::reduce);
  CHECK_FALSE(kind("ncclDevKernel_Generic").has_value());
  CHECK(collective_of_kernel("ncclDevKernel_SendRecv").message);
  CHECK(kind("c10d::alltoall_base_") == CollectiveKind::all_to_all);
}

TEST_CASE("PyTorch's names of collectives and types", "[trace]") {
  CHECK(collective_kind("_allgather_base") == CollectiveKind::all_gather);
  CHECK(collective_kind("barrier") == CollectiveKind::barrier);
  CHECK_FALSE(collective_kind("send").has_value());
  CHECK(collective_name("recv") == "send_receive");
  CHECK(element_bytes("BFloat16") == 2);
  CHECK(element_bytes("Float8_e4m3fn") == 1);
  CHECK(element_bytes("?") == 0);
}
