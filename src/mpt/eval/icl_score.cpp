#include <mpt/eval/icl_score.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <mpt/eval/python_text.hpp>

namespace mpt::eval {

std::size_t common_beginning(std::span<scored_ids const> options) {
  if (options.size() < 2) return 0;
  std::size_t common = std::numeric_limits<std::size_t>::max();
  for (auto const& option : options) common = std::min(common, option.begin - 1);
  auto const& first = options.front().ids;
  for (auto const& option : options.subspan(1)) {
    auto const end = option.ids.begin() + static_cast<std::ptrdiff_t>(common);
    common = static_cast<std::size_t>(std::mismatch(option.ids.begin(), end, first.begin()).first -
                                      option.ids.begin());
  }
  return common;
}

void add_prediction(option_score& score, std::span<float const> logits, std::int32_t target) {
  auto const best = std::ranges::max_element(logits);
  double const largest = *best;
  double sum = 0;
  for (float const logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  score.loss += std::log(sum) + largest - logits[static_cast<std::size_t>(target)];
  score.is_likeliest = score.is_likeliest && best - logits.begin() == target;
}

std::vector<option_score> task_model::score(std::span<scored_ids const> options) {
  auto const common = common_beginning(options);
  auto const ids = [&](scored_ids const& option, std::size_t begin, std::size_t end) {
    return std::span(option.ids).subspan(begin, end - begin);
  };
  reader_.truncate(0, 0);
  if (common > 0) static_cast<void>(reader_.read(0, ids(options.front(), 0, common), 0));
  std::vector<option_score> out;
  for (auto const& option : options) {
    reader_.truncate(0, static_cast<index>(common));
    auto const scored = option.ids.size() - option.begin;
    // the last id predicts no scored id
    auto const logits =
        reader_.read(0, ids(option, common, option.ids.size() - 1), static_cast<index>(scored));
    auto const vocabulary = logits.size() / scored;
    option_score option_result{.loss = 0, .is_likeliest = true};
    for (std::size_t i = 0; i < scored; ++i)
      add_prediction(option_result, std::span(logits).subspan(i * vocabulary, vocabulary),
                     option.ids[option.begin + i]);
    option_result.loss /= static_cast<double>(scored);
    require(std::isfinite(option_result.loss),
            "the model's logits are not finite; its weights may be damaged");
    out.push_back(option_result);
  }
  return out;
}

std::vector<std::int32_t> task_model::generate(std::vector<std::int32_t> const& prompt,
                                               generation_options const& options) {
  return mpt::generate(reader_, std::span(&prompt, 1), options).front();
}

std::string cleaned_answer(task_config const& task, std::string_view output) {
  std::size_t end = output.size();
  for (auto const& stop : task.stops) end = std::min(end, output.find(stop));
  output = output.substr(0, end);
  if (!task.cot_delimiter.empty())
    if (auto const delimiter = output.rfind(task.cot_delimiter);
        delimiter != std::string_view::npos)
      output = output.substr(delimiter + task.cot_delimiter.size());
  return compared_answer(task, output);
}

std::string compared_answer(task_config const& task, std::string_view answer) {
  return task.do_normalization ? normalise_answer(answer) : std::string(strip(answer));
}

bool is_answer_right(task_config const& task, std::string_view output,
                     std::span<std::string const> answers) {
  auto const cleaned = cleaned_answer(task, output);
  return std::ranges::any_of(answers, [&](std::string const& answer) {
    return cleaned.starts_with(compared_answer(task, answer));
  });
}

}  // namespace mpt::eval
