// A model whose loss is taken in chunks, for those who ask what that would change.
#pragma once

#include "sim/model/model.hpp"

namespace sim {

// run_with_chunked_loss: the same model with LossForm::chunked in place of the loss that it has.
void run_with_chunked_loss(Model& model);

}  // namespace sim
