// See run_inputs.hpp.
#include <inputs/run_inputs.hpp>

#include <utility>

#include <inputs/http.hpp>
#include <inputs/parquet.hpp>
#include <launch/launch.hpp>
#include <mpt/console/say.hpp>
#include <mpt/hub/settings.hpp>
#include <mpt/train/data/data_fingerprint.hpp>
#include <mpt/train/data/example_batches.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/data/remote_sets.hpp>
#include <mpt/train/data/tokenizer_notes.hpp>

namespace apps {

run_inputs read_run_inputs(mpt::model_config const& model, mpt::data_config const& data,
                           mpt::evaluation_config const& evaluation, mpt::remote_sets const& sets,
                           std::chrono::local_seconds date, bool compared) {
  run_inputs out{.examples = mpt::read_run_examples(
                     model, data, {.parquet = parquet_reader(), .date = date}, sets)};
  out.lines = describe(out.examples, data);
  for (auto const& note : mpt::tokenizer_notes(data)) out.lines.push_back("note: " + note);
  for (auto& line : mpt::describe_packing(out.examples, data, evaluation))
    out.lines.push_back(std::move(line));
  if (compared) out.fingerprint = mpt::data_fingerprint(model, data, out.examples, sets);
  return out;
}

}  // namespace apps

mpt::remote_sets apps::open_remote_sets(mpt::data_config const& data) {
  bool const says_waits = is_primary_here();
  mpt::data::shard_cache_options options;
  options.connect = [says_waits](mpt::net::retry_policy const& policy,
                                 mpt::net::http_client::sleeper sleep) {
    return network_with(policy, std::move(sleep), says_waits);
  };
  options.note = [says_waits](std::string const& sentence) {
    if (says_waits) mpt::console::say("note: {}\n", sentence);
  };
  return mpt::open_remote_sets(
      data, options, [] { return mpt::net::read_object_store(mpt::hub::process_environment); });
}
