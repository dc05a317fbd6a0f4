#include <mpt/eval/icl_run.hpp>

#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mpt::eval {
namespace {

[[nodiscard]] nlohmann::json pack(row_result const& row) {
  return {row.line, row.is_correct, row.losses, row.chosen, row.output, row.is_cut};
}

[[nodiscard]] row_result unpack(nlohmann::json const& row) {
  return {row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5)};
}

}  // namespace

double part_result::accuracy() const {
  auto const correct_rows = std::ranges::count_if(rows, &row_result::is_correct);
  return rows.empty() ? 0.0 : static_cast<double>(correct_rows) / static_cast<double>(rows.size());
}

double task_result::accuracy() const {
  double sum = 0;
  for (auto const& part : parts) sum += part.accuracy();
  return parts.empty() ? 0.0 : sum / static_cast<double>(parts.size());
}

std::size_t task_result::rows() const {
  std::size_t sum = 0;
  for (auto const& part : parts) sum += part.rows.size();
  return sum;
}

std::size_t task_result::cut_contexts() const {
  std::ptrdiff_t sum = 0;
  for (auto const& part : parts) sum += std::ranges::count_if(part.rows, &row_result::is_cut);
  return static_cast<std::size_t>(sum);
}

std::size_t rows_to_run(task_config const& task, task_rows const& part,
                        std::optional<std::int64_t> batches) {
  if (!batches || *batches < 0 || task.has_categories) return part.rows.size();
  // each option of a row counts as a sequence of a batch
  auto const sequences = task.kind == task_kind::multiple_choice || task.kind == task_kind::schema
                             ? static_cast<std::int64_t>(part.rows[0].options.size())
                             : 1;
  auto const rows = std::max(task.batch_size, sequences) / sequences * *batches;
  return std::min(part.rows.size(), static_cast<std::size_t>(rows));
}

std::vector<std::string> notes_on_rows(task_config const& task, task_rows const& part,
                                       std::string_view name, std::size_t rows,
                                       std::int64_t shots) {
  std::vector<std::string> out;
  auto const category = name.empty() ? std::string() : fmt::format(" of {}", name);
  auto const examples = part.rows.size() - 1;  // a question is not among its own examples
  if (static_cast<std::size_t>(shots) > examples)
    out.push_back(fmt::format("questions{} have {} examples each, as there are only {} rows",
                              category, examples, part.rows.size()));
  if (task.kind != task_kind::generation) return out;
  std::size_t count = 0;
  std::string first;
  for (auto const& row : std::span(part.rows).first(rows)) {
    auto const empty = std::ranges::find_if(row.options, [&](std::string const& answer) {
      return compared_answer(task, answer).empty();
    });
    if (empty != row.options.end() && ++count == 1)
      first = fmt::format("{}:{}, whose answer \"{}\"", part.name, row.line, *empty);
  }
  if (count > 0)
    out.push_back(fmt::format(
        "any text counts as right for {} of {} rows{}, such as {} leaves nothing to compare{}; "
        "remove such answers",
        count, rows, category, first,
        task.do_normalization ? " without articles and punctuation (do_normalization)" : ""));
  return out;
}

}  // namespace mpt::eval

namespace mpt::eval::detail {

void share_rows(std::vector<row_result>& rows, row_sharing const& sharing) {
  if (sharing.ranks == 1) return;
  nlohmann::json rank_rows = nlohmann::json::array();
  for (auto i = static_cast<std::size_t>(sharing.rank); i < rows.size();
       i += static_cast<std::size_t>(sharing.ranks))
    rank_rows.push_back(pack(rows[i]));
  auto const texts = sharing.gather(rank_rows.dump());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::size_t i = rank;
    for (auto const& row : nlohmann::json::parse(texts[rank])) {
      rows.at(i) = unpack(row);
      i += texts.size();
    }
  }
}

}  // namespace mpt::eval::detail
