#include <mpt/report/read_lines.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <istream>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include <mpt/report/detail/json_values.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt::report {
namespace {

/// A line of a file, without its end.
struct text_line {
  std::string text;
  bool is_too_long = false;  // then `text` is its beginning
  bool is_last = false;      // nothing ends it
};

/// Reads the next line into `line`; false at the end of the file.
bool read_line(std::istream& in, std::vector<char>& buffer, text_line& line) {
  in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  auto const count = static_cast<std::size_t>(in.gcount());
  line.is_too_long = in.fail() && !in.eof() && !in.bad() && count + 1 == buffer.size();
  if (!line.is_too_long && (in.fail() || in.bad())) return false;
  line.is_last = in.eof();
  bool const has_end = !line.is_too_long && !line.is_last;  // which is counted
  line.text.assign(buffer.data(), count - (has_end ? 1 : 0));
  if (!line.is_too_long) return true;
  in.clear();
  in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  return true;
}

std::string use_line(text_line const& line,
                     std::function<std::string(nlohmann::ordered_json const&)> const& use) {
  if (line.is_too_long) return "is too long";
  auto const record = nlohmann::ordered_json::parse(line.text, nullptr, false);
  if (record.is_discarded()) return line.is_last ? "is cut off" : "is no JSON";
  return record.is_object() ? use(record) : "is no JSON object";
}

}  // namespace

std::size_t read_lines(std::filesystem::path const& file,
                       std::function<std::string(nlohmann::ordered_json const&)> const& use,
                       std::vector<std::string>& problems) {
  constexpr std::size_t longest_line = std::size_t{4} << 20;  // bytes
  constexpr std::size_t named_lines = 3;
  errno = 0;
  std::ifstream in(file);
  std::size_t number = 0, damaged = 0;
  std::vector<char> buffer(longest_line + 1);
  for (text_line line; in && read_line(in, buffer, line);) {
    ++number;
    auto const problem = use_line(line, use);
    if (problem.empty() || ++damaged > named_lines) continue;
    problems.push_back(fmt::format("{}: line {} {} and is left out: {}", file.native(), number,
                                   problem, printable(line.text.substr(0, 60))));
  }
  if (in.bad() || !in.is_open())
    problems.push_back(fmt::format("{}: can be read only up to line {}: {}", file.native(), number,
                                   std::generic_category().message(errno)));
  if (damaged > named_lines)
    problems.push_back(fmt::format("{}: {} more lines are damaged and left out", file.native(),
                                   damaged - named_lines));
  return number - damaged;
}

namespace {

using detail::number_at;
using detail::seconds_at;

class metrics_reader {
 public:
  metrics_reader(double seconds_of_unit, run_record& run)
      : seconds_of_unit_(seconds_of_unit), run_(run) {}

  /// Adds a line of the file; returns what is wrong with it, or "".
  std::string add(nlohmann::ordered_json const& record) {
    auto const batch = record.find("time/batch");
    if (batch == record.end() || !batch->is_number_integer()) return "has no batch (time/batch)";
    auto const number = batch->get<std::int64_t>();
    if (number < 0) return "has a negative batch (time/batch)";
    bool const is_training = record.contains("loss/train/total");
    if (is_training) begin_batch(record, number);
    for (auto const& [name, value] : record.items()) {
      if (name == "time/batch") continue;
      if (value.is_number() || value.is_null())
        replace(run_.curves[name], number,
                value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
      else if (value.is_string() && name.starts_with("generations/"))
        run_.samples.push_back({number, name, value.get<std::string>()});
    }
    return "";
  }

  [[nodiscard]] std::vector<run_program> const& programs() const { return programs_; }

 private:
  /// Adds a value in place of those of the same and of later batches, as of an evaluation that a
  /// resumed run makes again.
  static void replace(curve& points, std::int64_t batch, double value) {
    if (!points.empty() && points.batches.back() >= batch) points.remove_from(batch);
    points.add(batch, value);
  }

  void begin_batch(nlohmann::ordered_json const& record, std::int64_t batch) {
    double const seconds = seconds_at(record, "time/train_seconds");
    // what a batch turns out to have waited is subtracted later, so the time may fall a little
    bool const is_restart = programs_.empty() || batch <= last_batch_ || seconds < seconds_ / 2;
    if (is_restart) {
      remove_from(batch);
      programs_.emplace_back().first_batch = batch;
      seconds_ = 0;
    }
    auto& program = programs_.back();
    double const spent = std::max(0.0, seconds - seconds_);
    double const waited = spent * std::clamp(number_at(record, "time/data_wait_share"), 0.0, 1.0);
    program.last_batch = batch;
    program.spent.data += waited;
    program.spent.training += spent - waited;
    program.spent.evaluation = seconds_at(record, "time/val") * seconds_of_unit_;
    program.spent.saving = seconds_at(record, "time/checkpoint_blocked");
    run_.curves[seconds_of_batch].add(batch, spent);
    last_batch_ = batch;
    seconds_ = std::max(seconds_, seconds);
  }

  /// Removes everything from `batch` on, which is trained again; its time is lost.
  void remove_from(std::int64_t batch) {
    auto const found = run_.curves.find(seconds_of_batch);
    if (found == run_.curves.end()) return;
    for (auto i = found->second.size(); i-- > 0 && found->second.batches[i] >= batch;)
      lose(found->second.batches[i], found->second.values[i]);
    for (auto& [name, points] : run_.curves) points.remove_from(batch);
    std::erase_if(run_.samples, [&](text_sample const& sample) { return sample.batch >= batch; });
  }

  /// The time of a batch becomes lost time of the program that trained it last.
  void lose(std::int64_t batch, double seconds) {
    for (auto i = programs_.size(); i-- > 0;) {
      auto& program = programs_[i];
      if (batch < program.first_batch || batch > program.last_batch) continue;
      auto const useful = program.spent.training + program.spent.data;
      double const share = useful > 0 ? std::min(1.0, seconds / useful) : 0;
      program.spent.lost += seconds;
      program.spent.training *= 1 - share;
      program.spent.data *= 1 - share;
      return;
    }
  }

  double seconds_of_unit_;
  run_record& run_;
  std::vector<run_program> programs_;
  std::int64_t last_batch_ = 0;
  double seconds_ = 0;  // of training at the last batch, since its program began to train
};

}  // namespace

std::vector<run_program> read_metrics(std::filesystem::path const& file, double seconds_of_unit,
                                      run_record& run) {
  metrics_reader reader(seconds_of_unit, run);
  auto const used = read_lines(
      file, [&](nlohmann::ordered_json const& record) { return reader.add(record); }, run.problems);
  parallel::require(used > 0 || !run.save_folder.empty(), file.native(),
                    ": is no metrics_file: none of its lines is a record of a batch; name a run's "
                    "save_folder, or its metrics_file");
  if (reader.programs().empty())
    run.problems.push_back(fmt::format("{}: holds no trained batch", file.string()));
  return reader.programs();
}

}  // namespace mpt::report
