#pragma once

#include "sim/interop/handover.hpp"

namespace sim {

// The request with the number of GPUs that the launcher of a script or a printed block of arguments
// says; a number that was asked for stays. Either is told in a note.
ImportRequest with_gpus_of_launcher(const ObjectReader& root, const ImportRequest& request,
                                    Imported& result);

}  // namespace sim
