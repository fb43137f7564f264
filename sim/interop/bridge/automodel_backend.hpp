// Section `backend` of a model of NeMo Automodel: which kernels its own classes run with, and how
// tokens come to experts.
#pragma once

#include "sim/interop/settings.hpp"

namespace sim {

struct AutomodelBackend {
  bool said = false;  // the file has the section
  Text attention, linear, norm, experts, dispatcher;
  Text eight_bit;                        // te_fp8.recipe
  Flag rope_fusion, balanced;            // fake_balanced_gate
  Flag compiles_attention, keeps_units;  // compile_attn, enable_fsdp_optimizations
  Real noise;                            // of the balanced gate
  Whole dispatch_sms;
};

AutomodelBackend read_automodel_backend(const ObjectReader& model, Imported& result);

// Whether Automodel runs the model by a class of its own, which `backend` is for.
bool runs_own_class(const AutomodelBackend& backend, const TransformerShape& shape);

// The kernels of `result`, whose shape and degrees are set. `expert_ranks`: ep_size.
void set_automodel_kernels(const AutomodelBackend& backend, const Whole& expert_ranks,
                           bool has_flash_2, const ObjectReader& root, Imported& result);

}  // namespace sim
