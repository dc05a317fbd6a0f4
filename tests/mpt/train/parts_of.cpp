#include "mpt/train/parts_of.hpp"

#include <mpt/train/read_run_parts.hpp>

mpt::run_parts tiny_run::parts_of(mpt::train_config const& config) {
  return mpt::read_run_parts(config, mpt::read_run_examples(config.model, config.data));
}
