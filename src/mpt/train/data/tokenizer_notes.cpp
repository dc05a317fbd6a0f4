#include <mpt/train/data/tokenizer_notes.hpp>

#include <filesystem>
#include <system_error>
#include <utility>

#include <mpt/data/records.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/train/data/stream_folder.hpp>

namespace mpt {
namespace {

/// The reason why the tokenizer at `name` has no end-of-text token; empty where it has one, or it
/// is of a kind that is not read here.
[[nodiscard]] std::string missing_end(std::string const& name) {
  try {
    auto const words = tokenizer::load(name);
    return words.eos_id() ? std::string() : why_without_end(words);
  } catch (parallel::error const&) {
    return {};
  }
}

}  // namespace

std::vector<std::string> tokenizer_notes(data_config const& data) {
  std::vector<std::string> out;
  auto const& name = data.tokenizer.name;
  std::error_code unreadable;  // then it is not there
  if (name.empty() || !std::filesystem::exists(name, unreadable)) return out;
  auto const add = [&](loader_config const& loader) {
    for (auto const& stream : loader.streams)
      if (auto note = data::other_tokenizer_note(stream_folder(stream), name); !note.empty())
        out.push_back(std::move(note));
  };
  add(data.train_loader);
  for (auto const& loader : data.eval_loaders) add(loader);
  if (auto const reason = missing_end(name); !reason.empty())
    out.push_back(parallel::concat("tokenizer.name ", name, " has no end-of-text token (", reason,
                                   "): texts that models exported with it write never end"));
  return out;
}

}  // namespace mpt
