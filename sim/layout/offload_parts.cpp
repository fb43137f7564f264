#include "sim/layout/offload_parts.hpp"

namespace sim {
namespace {

bool has_optimizer(OffloadParts parts) {
  return parts != OffloadParts::none && parts != OffloadParts::activations;
}

bool has_parameters(OffloadParts parts) {
  return parts == OffloadParts::optimizer_and_parameters || parts == OffloadParts::all;
}

bool has_activations(OffloadParts parts) {
  return parts == OffloadParts::activations || parts == OffloadParts::optimizer_and_activations ||
         parts == OffloadParts::all;
}

// The keys of a part that is not there say nothing.
void forget_optimizer(Layout& layout) {
  const Layout plain;
  layout.offload_optimizer = OffloadTarget::none;
  layout.offload_fraction = plain.offload_fraction;
  layout.offload_overlap = plain.offload_overlap;
  layout.offload_delay = plain.offload_delay;
  layout.offload_delay_after = plain.offload_delay_after;
}

void forget_activations(Layout& layout) {
  layout.offload_activations = OffloadTarget::none;
  layout.offload_layers = 0;
  layout.offload_modules.clear();
  layout.offload_least = 0;
}

}  // namespace

OffloadParts offload_parts(const Layout& layout) {
  const bool activations = layout.offloads_activations();
  if (layout.offloads_parameters())
    return activations ? OffloadParts::all : OffloadParts::optimizer_and_parameters;
  if (layout.offloads())
    return activations ? OffloadParts::optimizer_and_activations : OffloadParts::optimizer;
  return activations ? OffloadParts::activations : OffloadParts::none;
}

void offload(OffloadParts parts, Layout& layout) {
  if (parts == offload_parts(layout)) return;
  if (!has_optimizer(parts))
    forget_optimizer(layout);
  else if (!layout.offloads())
    layout.offload_optimizer = OffloadTarget::cpu;
  if (!has_parameters(parts))
    layout.offload_parameters = OffloadTarget::none;
  else if (!layout.offloads_parameters())
    layout.offload_parameters = OffloadTarget::cpu;
  if (!has_activations(parts))
    forget_activations(layout);
  else if (!layout.offloads_activations())
    layout.offload_activations = OffloadTarget::cpu;
}

}  // namespace sim
