#include <mpt/net/http.hpp>

#include <chrono>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

namespace http_test {

using namespace mpt::net;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A transport with prepared answers, which notes its requests and the waits between them.
struct script {
  std::vector<std::function<http_response()>> answers;
  std::vector<http_request> requests{};
  std::vector<milliseconds> waits{};

  http_client client(retry_policy policy = {}) {
    auto const transport = [this](http_request const& request, body_sink const&) {
      requests.push_back(request);
      REQUIRE(requests.size() <= answers.size());
      return answers[requests.size() - 1]();
    };
    return http_client(transport, policy, {}, [this](milliseconds time) { waits.push_back(time); });
  }
};

std::function<http_response()> answer(int status, header_list headers = {}) {
  return [=] {
    http_response out;
    out.status = status;
    out.headers = headers;
    return out;
  };
}

std::function<http_response()> lost(bool is_unreachable = false) {
  return [=]() -> http_response { throw connection_error("cut", is_unreachable); };
}

http_request request_with_secrets() {
  http_request out;
  out.url = "https://hub.example/a";
  out.bearer_token = "secret";
  out.signing_key = aws_key{"us-east-1", "key", "secret", ""};
  return out;
}

TEST_CASE("http client: token and signature go to the request's own server alone") {
  script server{{answer(302, {{"location", "/b"}}),
                 answer(302, {{"location", "https://cdn.example/c"}}),
                 answer(302, {{"location", "https://hub.example/d"}}), answer(200)}};
  auto const response = server.client().send(request_with_secrets());
  CHECK(response.status == 200);
  CHECK(response.url == "https://hub.example/d");
  REQUIRE(server.requests.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    bool const is_own = i != 2;
    CHECK(server.requests[i].bearer_token == (is_own ? "secret" : ""));
    CHECK(server.requests[i].signing_key.has_value() == is_own);
  }
}

TEST_CASE("http client: redirects end as the request says, and never lead from https to http") {
  auto request = request_with_secrets();
  script downgrade{{answer(301, {{"location", "http://hub.example/a"}})}};
  CHECK_THROWS_AS(static_cast<void>(downgrade.client().send(request)), parallel::error);
  request.followed = redirects::same_server;
  script other{
      {answer(307, {{"location", "/b"}}), answer(307, {{"location", "https://cdn.example"}})}};
  CHECK(other.client().send(request).status == 307);
  CHECK(other.requests.size() == 2);
  request.followed = redirects::none;
  script none{{answer(307, {{"location", "/b"}})}};
  CHECK(none.client().send(request).status == 307);
}

TEST_CASE("http client: a redirected POST becomes a GET unless the status keeps it") {
  for (int const status : {302, 307}) {
    script server{{answer(status, {{"location", "/b"}}), answer(200)}};
    http_request request;
    request.method = "POST";
    request.url = "http://hub.example/a";
    request.body = "text";
    static_cast<void>(server.client().send(request));
    CHECK(server.requests[1].method == (status == 307 ? "POST" : "GET"));
    CHECK(server.requests[1].body == (status == 307 ? "text" : ""));
  }
}

TEST_CASE("http client: waits double, and a Retry-After is kept") {
  script server{
      {answer(503), lost(), answer(429, {{"retry-after", "20"}}), answer(500), answer(404)}};
  http_request request;
  request.url = "http://hub.example/a";
  CHECK(server.client().send_retrying(request).status == 404);
  REQUIRE(server.waits.size() == 4);
  auto const has_wait = [&](std::size_t index, int longest) {
    return server.waits[index] >= milliseconds(longest / 2) &&
           server.waits[index] <= milliseconds(longest);
  };
  CHECK(has_wait(0, 500));
  CHECK(has_wait(1, 1000));
  CHECK(server.waits[2] == seconds(20));
  CHECK(has_wait(3, 4000));
}

TEST_CASE("http client: attempts end with the last response or error") {
  http_request request;
  request.url = "http://hub.example/a";
  script busy{std::vector(6, answer(503))};
  CHECK(busy.client().send_retrying(request).status == 503);
  CHECK(busy.requests.size() == 6);
  script cut{std::vector(6, lost())};
  CHECK_THROWS_AS(static_cast<void>(cut.client().send_retrying(request)), connection_error);
  CHECK(cut.requests.size() == 6);
  script unreachable{std::vector(3, lost(true))};
  CHECK_THROWS_AS(static_cast<void>(unreachable.client().send_retrying(request)), connection_error);
  CHECK(unreachable.requests.size() == 3);
  script restarting{std::vector(5, lost(true))};
  CHECK_THROWS_AS(
      static_cast<void>(
          restarting.client({.attempts = 5, .unreachable_attempts = 5}).send_retrying(request)),
      connection_error);
  CHECK(restarting.requests.size() == 5);
  script patient{{answer(429, {{"retry-after", "86400"}})}};
  CHECK(patient.client().send_retrying(request).status == 429);
  CHECK(patient.waits.empty());
}

TEST_CASE("http client: a long Retry-After is cut where the policy says so") {
  http_request request;
  request.url = "http://hub.example/a";
  script server{{answer(429, {{"retry-after", "86400"}}), answer(200)}};
  auto const client =
      server.client({.longest_retry_after = seconds(60), .shortens_retry_after = true});
  CHECK(client.send_retrying(request).status == 200);
  CHECK(server.waits == std::vector<milliseconds>{seconds(60)});
}

TEST_CASE("http client: no attempt follows a request that was cancelled") {
  http_request request;
  request.url = "http://hub.example/a";
  request.is_cancelled = [] { return true; };
  script server{{lost()}};
  CHECK_THROWS_AS(static_cast<void>(server.client().send_retrying(request)), connection_error);
  CHECK(server.requests.size() == 1);
  CHECK(server.waits.empty());
}

TEST_CASE("http client: progress gives all attempts back") {
  script server{std::vector(20, lost())};
  int count = 0;
  auto const client = server.client();
  auto const attempt = [&]() -> http_response {
    if (++count == 20) return answer(200)();
    throw connection_error("cut");
  };
  CHECK(client.retry(attempt, [] { return true; }).status == 200);
}

TEST_CASE("http client: a build without a transport is refused with what to install") {
  CHECK_THROWS_WITH_AS(http_client(http_transport{}), doctest::Contains("libcurl4-openssl-dev"),
                       parallel::error);
}

TEST_CASE("Retry-After: seconds and dates are read, other text is not") {
  std::chrono::system_clock::time_point const time(seconds(1445412480));  // 21 Oct 2015 07:28:00
  CHECK(read_retry_after("120", time) == milliseconds(120'000));
  CHECK(read_retry_after("Wed, 21 Oct 2015 07:28:30 GMT", time) == milliseconds(30'000));
  CHECK(read_retry_after("Wednesday, 21-Oct-15 07:28:30 GMT", time) == milliseconds(30'000));
  CHECK(read_retry_after("Wed Oct 21 07:28:30 2015", time) == milliseconds(30'000));
  CHECK(read_retry_after("Sun Nov  1 07:28:00 2015", time) == seconds(11 * 86'400));
  CHECK(read_retry_after("Wed, 21 Oct 2015 07:00:00 GMT", time) == milliseconds(0));
  CHECK(read_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", time) == seconds(1'000'000));
  for (auto const* text : {"", "-1", "soon", "1.5", "Wed, 21 Oct 2015"})
    CHECK_FALSE(read_retry_after(text, time).has_value());
}

}  // namespace http_test
