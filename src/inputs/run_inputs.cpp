// See run_inputs.hpp.
#include <inputs/run_inputs.hpp>

#include <utility>

#include <inputs/http.hpp>
#include <inputs/parquet.hpp>
#include <inputs/same_inputs.hpp>
#include <launch/launch.hpp>
#include <mpt/console/say.hpp>
#include <mpt/hf/adapter.hpp>
#include <mpt/hf/is_model.hpp>
#include <mpt/hf/tensor_checksums.hpp>
#include <mpt/hub/settings.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/data/data_fingerprint.hpp>
#include <mpt/train/data/example_batches.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/data/remote_sets.hpp>
#include <mpt/train/data/tokenizer_notes.hpp>
#include <parallel/checkpoint/checkpoints.hpp>

namespace apps {
namespace {

namespace fs = std::filesystem;

/// The facts of the weights that a run begins with, unless it resumes from its save_folder. Weights
/// that cannot be opened have none: the run says why when it loads them.
mpt::input_facts first_weight_facts(mpt::checkpoint_config const& checkpoint,
                                    mpt::checksum_extent extent) try {
  namespace stored = parallel::checkpoint;
  if (checkpoint.autoresume && stored::latest(checkpoint.save_folder).folder) return {};
  fs::path const source =
      checkpoint.load_path.empty() ? checkpoint.pretrained : checkpoint.load_path;
  mpt::input_facts out;
  if (mpt::hf::is_model(source))
    out = mpt::hf::weight_facts("the weights", mpt::hf::weight_files(source), extent);
  else if (auto const folder = mpt::is_checkpoint(source) ? source : stored::latest(source).folder)
    out = mpt::hf::checkpoint_facts(stored::checkpoint_reader(*folder));
  if (!checkpoint.adapter.empty()) {
    mpt::hf::peft_adapter const adapter(checkpoint.adapter);
    auto const facts = mpt::hf::weight_facts("the adapter", adapter.tensors(), extent);
    out.insert(out.end(), facts.begin(), facts.end());
  }
  return out;
} catch (parallel::error const&) {
  return {};
}

}  // namespace

run_inputs read_run_inputs(mpt::model_config const& model, mpt::data_config const& data,
                           mpt::evaluation_config const& evaluation, mpt::remote_sets const& sets,
                           std::chrono::local_seconds date) {
  run_inputs out{.examples = mpt::read_run_examples(
                     model, data, {.parquet = parquet_reader(), .date = date}, sets)};
  out.lines = describe(out.examples, data);
  for (auto const& note : mpt::tokenizer_notes(data)) out.lines.push_back("note: " + note);
  for (auto& line : mpt::describe_packing(out.examples, data, evaluation))
    out.lines.push_back(std::move(line));
  return out;
}

mpt::input_facts run_facts(fs::path const& file, mpt::train_config const& config,
                           mpt::run_examples const& examples, mpt::remote_sets const& sets) {
  mpt::input_facts out{program_fact()};
  auto const add = [&](mpt::input_facts const& facts) {
    out.insert(out.end(), facts.begin(), facts.end());
  };
  auto const& checkpoint = config.checkpoint;
  add(setting_facts(file, config.output.loggers.settings));
  add(model_facts(config.model, checkpoint.pretrained));
  add(first_weight_facts(checkpoint, config.run.compare_inputs));
  add(tokenizer_facts(config.data.tokenizer.name));
  add(data_facts(config.model, config.data, examples, sets, config.run.compare_inputs));
  add(task_facts(config.evaluation.icl.tasks));
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
