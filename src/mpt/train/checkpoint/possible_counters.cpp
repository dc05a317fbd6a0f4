#include <mpt/train/checkpoint/possible_counters.hpp>

#include <cstdint>

namespace mpt {

void require_possible_counters(nlohmann::json const& state, training_clock const& clock,
                               std::filesystem::path const& folder) {
  auto const number = [&](char const* key) {
    auto const found = state.find(key);
    parallel::require(found != state.end() && found->is_number_integer(), folder.string(),
                      ": its state lacks the number ", key);
    constexpr auto limit = std::uint64_t{1} << 62;
    bool const is_possible = found->is_number_unsigned() && found->get<std::uint64_t>() < limit;
    parallel::require(is_possible, folder.string(), ": its manifest says ", key, " = ",
                      found->dump(),
                      ", which no run counts; it was changed: use another checkpoint");
    return found->get<std::int64_t>();
  };
  auto const batches = number("batches");
  auto const epoch = number("epoch");
  auto const batch_in_epoch = number("batch_in_epoch");
  auto const tokens = number("tokens");
  auto const contradict = [&](auto const&... claims) {
    parallel::fail(folder.string(), ": its manifest says batches = ", batches, claims...,
                   "; it was changed: use another checkpoint");
  };
  auto const id = parallel::checkpoint::checkpoint_id::parse(folder.filename().native());
  if (id && (id->batch != batches || id->epoch != epoch))
    contradict(" and epoch = ", epoch, ", which its name contradicts");
  if (auto const per_epoch = clock.batches_per_epoch; per_epoch > 0) {
    if (epoch != batches / per_epoch || batch_in_epoch != batches % per_epoch)
      contradict(", epoch = ", epoch, " and batch_in_epoch = ", batch_in_epoch,
                 ", but an epoch has ", per_epoch, " batches");
  }
  if (tokens > 0 && clock.tokens_per_batch > 0 &&
      (batches == 0 || (tokens - 1) / clock.tokens_per_batch >= batches))
    contradict(" and tokens = ", tokens, ", but a batch has ", clock.tokens_per_batch);
}

}  // namespace mpt
