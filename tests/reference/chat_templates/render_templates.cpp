// Answers each line {"template", "context", "now"} of standard input with {"text"} or {"error"}.
#include <chrono>
#include <exception>
#include <iostream>
#include <string>

#include <mpt/tokenizer/chat/jinja/evaluator.hpp>

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::ordered_json answer;
    try {
      auto const question = nlohmann::ordered_json::parse(line);
      std::chrono::seconds const date(question.at("now").get<std::int64_t>());
      auto const variables = mpt::jinja::from_json(question.at("context"));
      auto const tree = mpt::jinja::parse(question.at("template").get<std::string>());
      answer["text"] = mpt::jinja::render(tree, variables, std::chrono::local_seconds(date));
    } catch (std::exception const& problem) {
      answer["error"] = problem.what();
    }
    std::cout << answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
}
