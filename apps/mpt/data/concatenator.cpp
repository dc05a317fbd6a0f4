#include <mpt/data/concatenator.hpp>

namespace mpt::data {

concatenator::concatenator(concatenator_options options, token_position from)
    : options_(std::move(options)), next_document_(from.document), skip_(from.offset) {
  parallel::require(options_.sample_ids > 0, "the number of ids in a sample must be positive");
}

}  // namespace mpt::data
