#include <inputs/tracking_client.hpp>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include <inputs/http.hpp>

namespace {

constexpr std::chrono::seconds answer_time(30);
constexpr std::size_t max_answer_bytes = std::size_t{16} << 20;

[[nodiscard]] std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

[[nodiscard]] mpt::net::http_request with_credentials(mpt::net::http_request request) {
  request.bearer_token = variable("MLFLOW_TRACKING_TOKEN");
  if (auto const name = variable("MLFLOW_TRACKING_USERNAME");
      request.bearer_token.empty() && !name.empty())
    request.login = mpt::net::basic_login{name, variable("MLFLOW_TRACKING_PASSWORD")};
  request.checks_certificate = variable("MLFLOW_TRACKING_INSECURE_TLS") != "true";
  request.authorities = variable("MLFLOW_TRACKING_SERVER_CERT_PATH");
  return request;
}

}  // namespace

mpt::trackers::http_client apps::tracking_client() {
  auto const transport = http_transport();
  if (!transport) return {};
  return [transport](mpt::trackers::http_request const& asked,
                     std::function<bool()> const& is_cancelled) -> mpt::trackers::http_answer {
    mpt::net::http_request request;
    request.method = asked.method;
    request.url = asked.url;
    request.headers = {{"Content-Type", "application/json"}};
    request.body = asked.body;
    request.timeouts.total = answer_time;
    request.max_body_bytes = max_answer_bytes;
    request.is_cancelled = is_cancelled;
    try {
      auto response = transport(with_credentials(std::move(request)), {});
      return {response.status, std::move(response.body)};
    } catch (parallel::error const& problem) {
      throw mpt::trackers::no_answer(problem.what());
    }
  };
}
