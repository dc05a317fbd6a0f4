// checkpoint: lists and verifies the checkpoints of a folder, compares two checkpoints, and
// rewrites one as another number of ranks would have written it.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <mpt/console/format.hpp>
#include <mpt/console/plain_text.hpp>
#include <mpt/console/say.hpp>
#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/checkpoint/difference.hpp>
#include <parallel/checkpoint/reshard.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <launch/launch.hpp>
#include <launch/launcher.hpp>

namespace {

namespace checkpoint = parallel::checkpoint;
namespace fs = std::filesystem;
using mpt::console::bytes;
using mpt::console::duration;
using mpt::console::plain_text;
using json = nlohmann::ordered_json;

/// Whether `folder` is a checkpoint, intact or damaged, rather than a folder of checkpoints.
bool is_one(fs::path const& folder) {
  return fs::exists(folder / checkpoint::manifest_name) ||
         checkpoint::checkpoint_id::parse(fs::canonical(folder).filename().native()).has_value();
}

/// The checkpoint that `folder` is, or the checkpoints that it holds, intact or damaged, newest
/// first.
std::vector<checkpoint::checkpoint_entry> entries(fs::path const& folder) {
  if (!is_one(folder)) {
    auto found = checkpoint::list_checkpoints(folder);
    parallel::require(!found.empty(), folder.native(),
                      ": there is no checkpoint here; name a folder like ep0-ba100, or one that "
                      "holds such");
    return found;
  }
  auto const id = checkpoint::checkpoint_id::parse(fs::canonical(folder).filename().native());
  return {{id.value_or(checkpoint::checkpoint_id{}), fs::canonical(folder),
           checkpoint::problem_of(folder)}};
}

/// Opens the checkpoint that `folder` is, or the newest one in it.
checkpoint::checkpoint_reader opened(fs::path const& folder) {
  if (is_one(folder)) return checkpoint::checkpoint_reader(folder);
  auto const newest = checkpoint::latest(folder);
  if (!newest.note.empty()) mpt::console::say("note: {}\n", newest.note);
  parallel::require(newest.folder.has_value(), folder.native(), ": there is no checkpoint here");
  return checkpoint::checkpoint_reader(*newest.folder);
}

double total_bytes(checkpoint::checkpoint_reader const& reader) {
  double sum = 0;
  for (auto const& [name, size] : reader.files()) sum += static_cast<double>(size);
  return sum;
}

/// Seconds since a checkpoint was completed; negative: not known.
double age(fs::path const& folder) {
  std::error_code problem;
  auto const written = fs::last_write_time(folder / checkpoint::manifest_name, problem);
  if (problem) return -1;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

/// The number of ranks that wrote files; "rank-00003-F32-000.safetensors" is of the fourth rank.
std::size_t ranks(checkpoint::checkpoint_reader const& reader) {
  std::set<std::string> out;
  for (auto const& [name, size] : reader.files()) out.insert(name.substr(0, name.find('-', 5)));
  return out.size();
}

/// The name to which a link in `root` points; "": there is no such link.
std::string linked(fs::path const& root, char const* link) {
  std::error_code none;
  return fs::read_symlink(root / link, none).native();
}

/// A user's question about one of several checkpoints.
json describe(checkpoint::checkpoint_entry const& entry) {
  auto const name = entry.folder.filename().native();
  json out{{"name", name}, {"folder", entry.folder.native()}, {"age_seconds", age(entry.folder)}};
  if (!entry.valid()) {
    out["problem"] = entry.problem;
    return out;
  }
  checkpoint::checkpoint_reader const reader(entry.folder);
  out["ranks"] = ranks(reader);
  out["tensors"] = reader.tensors().size();
  out["bytes"] = total_bytes(reader);
  out["links"] = json::array();
  for (char const* const link : {"latest", "best"})
    if (linked(entry.folder.parent_path(), link) == name) out["links"].push_back(link);
  return out;
}

void print_row(json const& row) {
  bool const is_complete = !row.contains("problem");
  std::string state =
      is_complete ? "complete" : "not complete: " + row.at("problem").get<std::string>();
  if (is_complete)
    for (auto const& link : row.at("links")) state += ", " + link.get<std::string>();
  auto const number = [&](char const* key) {
    return is_complete ? std::to_string(row.at(key).get<std::size_t>()) : std::string("–");
  };
  fmt::print("{:<16} {:>6} {:>8} {:>10} {:>12}  {}\n", row.at("name").get<std::string>(),
             number("ranks"), number("tensors"),
             is_complete ? bytes(row.at("bytes").get<double>()) : "–",
             duration(row.at("age_seconds").get<double>()), plain_text(state));
}

/// Folders next to the checkpoints that are being written or removed, or that a program left when
/// it was killed.
json leftovers(fs::path const& folder) {
  auto rows = json::array();
  if (is_one(folder)) return rows;
  for (auto const& entry : fs::directory_iterator(folder)) {
    auto const name = entry.path().filename().native();
    if (checkpoint::checkpoint_id::parse(checkpoint::name_of_leftover(name)))
      rows.push_back(
          {{"name", name},
           {"folder", entry.path().native()},
           {"problem", "being written or removed, or left by a program that was killed"}});
  }
  return rows;
}

void list(fs::path const& folder, bool as_json) {
  auto rows = json::array();
  for (auto const& entry : entries(folder)) rows.push_back(describe(entry));
  auto const unfinished = leftovers(folder);
  if (as_json) {
    rows.insert(rows.end(), unfinished.begin(), unfinished.end());
    return fmt::print("{}", apps::text_of_document(rows));
  }
  fmt::print("{:<16} {:>6} {:>8} {:>10} {:>12}  {}\n", "name", "ranks", "tensors", "size", "age",
             "state");
  for (auto const& row : rows) print_row(row);
  for (auto const& row : unfinished)
    fmt::print("{}  {}\n", row.at("name").get<std::string>(), row.at("problem").get<std::string>());
}

void verify(fs::path const& folder, bool as_json) {
  auto const checkpoints = entries(folder);
  auto rows = json::array();
  std::size_t damaged = 0;
  for (auto const& entry : checkpoints) {
    auto const begin = std::chrono::steady_clock::now();
    std::vector<std::string> found;
    double size = 0;
    if (entry.valid()) {
      checkpoint::checkpoint_reader const reader(entry.folder);
      size = total_bytes(reader);
      found = reader.damage();
    } else {
      found.push_back(entry.problem);
    }
    std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;
    damaged += found.empty() ? 0 : 1;
    if (as_json) {
      rows.push_back({{"folder", entry.folder.native()},
                      {"bytes", size},
                      {"seconds", elapsed.count()},
                      {"problems", found}});
      continue;
    }
    if (found.empty())
      fmt::print("{}: sound; {} read and checked, {}/s\n", entry.folder.native(), bytes(size),
                 bytes(size / std::max(elapsed.count(), 1e-9)));
    for (auto const& problem : found) fmt::print("{}\n", plain_text(problem));
  }
  if (as_json) fmt::print("{}", apps::text_of_document(rows));
  parallel::require(damaged == 0, damaged, " of ", checkpoints.size(), " checkpoint",
                    checkpoints.size() > 1 ? "s" : "", damaged == 1 ? " is" : " are",
                    " damaged; see above");
}

void print_difference(checkpoint::tensor_difference const& one, parallel::index size) {
  if (!one.form.empty()) return fmt::print("{}\n", plain_text(one.tensor + ": " + one.form));
  fmt::print(
      "{}: {} of {} elements differ, the first at {} ({:.9g} and {:.9g}), the largest difference "
      "{:.3g}\n",
      plain_text(one.tensor), one.elements, size, one.first, one.left, one.right, one.largest);
}

json to_json(checkpoint::tensor_difference const& one, parallel::index size) {
  if (!one.form.empty()) return {{"tensor", one.tensor}, {"problem", one.form}};
  return {{"tensor", one.tensor},  {"elements", size}, {"different", one.elements},
          {"first", one.first},    {"left", one.left}, {"right", one.right},
          {"largest", one.largest}};
}

void diff(fs::path const& left_folder, fs::path const& right_folder, bool as_json) {
  auto const left = opened(left_folder);
  auto const right = opened(right_folder);
  auto const found = checkpoint::differences(left, right);
  auto const changes = nlohmann::json::diff(left.state(), right.state());
  json report{{"tensors", json::array()}, {"state", json::array()}};
  for (auto const& one : found) {
    auto const size = one.form.empty() ? left.at(one.tensor).size() : 0;
    if (as_json)
      report["tensors"].push_back(to_json(one, size));
    else
      print_difference(one, size);
  }
  for (auto const& change : changes) {
    auto const text = fmt::format("{} {}", change.at("op").get<std::string>(),
                                  change.at("path").get<std::string>());
    if (as_json)
      report["state"].push_back(text);
    else
      fmt::print("state: {}\n", plain_text(text));
  }
  if (as_json) fmt::print("{}", apps::text_of_document(report));
  parallel::require(found.empty() && changes.empty(), left.folder().native(), " and ",
                    right.folder().native(), " differ in ", found.size(), " of ",
                    left.tensors().size(), " tensors",
                    changes.empty() ? "" : " and in their state");
  if (!as_json) fmt::print("{} tensors, all bits the same\n", left.tensors().size());
}

void reshard(fs::path const& from, fs::path const& to, parallel::index count, bool as_json) {
  auto const source = opened(from);
  checkpoint::folder_claim const claim(to);
  auto const written = checkpoint::reshard(source, to, count);
  checkpoint::checkpoint_reader const result(written);
  if (as_json)
    return fmt::print("{}", apps::text_of_document({{"from", source.folder().native()},
                                                    {"to", written.native()},
                                                    {"bytes", total_bytes(result)},
                                                    {"ranks", ranks(result)}}));
  fmt::print("{} → {} ({} in the files of {} ranks)\n", source.folder().native(), written.native(),
             bytes(total_bytes(result)), ranks(result));
}

}  // namespace

int main(int argc, char** argv) {
  fs::path folder;
  fs::path other;
  parallel::index count = 0;
  bool as_json = false;
  CLI::App app{"List, verify, compare and reshard checkpoints"};
  apps::add_examples(app, {"checkpoint list ckpt", "checkpoint verify ckpt --json",
                           "checkpoint diff ckpt/ba100 other/ba100",
                           "checkpoint reshard ckpt/ba100 resharded --ranks 16"});
  app.require_subcommand(1);
  auto const command = [&](char const* name, char const* description) {
    auto* const out = app.add_subcommand(name, description);
    out->add_option("folder", folder, "a checkpoint, or a folder of them")
        ->required()
        ->check(CLI::ExistingDirectory);
    return out;
  };
  auto* const lists = command("list", "names, ranks, size and age of checkpoints, newest first");
  auto* const verifies = command("verify", "read every slice from the disk and compare checksums");
  auto* const diffs =
      command("diff", "tensors of two checkpoints that are not the same bit by bit");
  diffs->add_option("other", other, "a checkpoint, or a folder of them")
      ->required()
      ->check(CLI::ExistingDirectory);
  auto* const reshards = command("reshard", "write it as another number of ranks would have");
  for (auto* const shown : {lists, verifies, diffs, reshards})
    shown->add_flag("--json", as_json, "print JSON instead");
  reshards->add_option("to", other, "folder of checkpoints to write it into")->required();
  reshards->add_option("--ranks", count, "the number of ranks that its files are divided for")
      ->required()
      ->check(apps::whole_number(1, 100'000));
  return apps::run(app, argc, argv, apps::is_primary_here(), [&] {
    apps::require_one_process();
    if (lists->parsed()) list(folder, as_json);
    if (verifies->parsed()) verify(folder, as_json);
    if (diffs->parsed()) diff(folder, other, as_json);
    if (reshards->parsed()) reshard(folder, other, count, as_json);
  });
}
