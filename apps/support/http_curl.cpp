#include <curl/curl.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "support/http.hpp"

namespace {

using mpt::trackers::http_answer;
using mpt::trackers::http_request;
using mpt::trackers::no_answer;

constexpr std::size_t most_answer_bytes = std::size_t{16} << 20;
constexpr long connect_seconds = 10;
constexpr long answer_seconds = 30;

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

struct curl_deleter {
  void operator()(CURL* handle) const { ::curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};

extern "C" std::size_t take_body(char* data, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > most_answer_bytes) return 0;
  text.append(data, size * count);
  return size * count;
}

extern "C" int look_for_cancellation(void* is_cancelled, ::curl_off_t, ::curl_off_t, ::curl_off_t,
                                     ::curl_off_t) {
  return (*static_cast<std::function<bool()> const*>(is_cancelled))() ? 1 : 0;
}

/// The credentials and certificates that MLflow's own client takes from the environment.
void set_credentials(CURL* handle) {
  if (auto const token = variable("MLFLOW_TRACKING_TOKEN"); !token.empty()) {
    ::curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    ::curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, token.c_str());
  } else if (auto const user = variable("MLFLOW_TRACKING_USERNAME"); !user.empty()) {
    ::curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    ::curl_easy_setopt(handle, CURLOPT_USERNAME, user.c_str());
    ::curl_easy_setopt(handle, CURLOPT_PASSWORD, variable("MLFLOW_TRACKING_PASSWORD").c_str());
  }
  if (variable("MLFLOW_TRACKING_INSECURE_TLS") == "true") {
    ::curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    ::curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  } else if (auto const file = variable("MLFLOW_TRACKING_SERVER_CERT_PATH"); !file.empty()) {
    ::curl_easy_setopt(handle, CURLOPT_CAINFO, file.c_str());
  }
}

http_answer send(CURL* handle, http_request const& request,
                 std::function<bool()> const& is_cancelled) {
  ::curl_easy_reset(handle);  // connections stay open
  http_answer answer;
  std::string problem(CURL_ERROR_SIZE, '\0');
  std::unique_ptr<curl_slist, curl_deleter> const headers(
      ::curl_slist_append(nullptr, "Content-Type: application/json"));
  ::curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  ::curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);  // other threads run
  ::curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, connect_seconds);
  ::curl_easy_setopt(handle, CURLOPT_TIMEOUT, answer_seconds);
  ::curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  ::curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem.data());
  ::curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take_body);
  ::curl_easy_setopt(handle, CURLOPT_WRITEDATA, &answer.body);
  ::curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  ::curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &look_for_cancellation);
  ::curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &is_cancelled);
  if (request.method != "GET") {
    ::curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    ::curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<::curl_off_t>(request.body.size()));
    ::curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data());
  }
  set_credentials(handle);  // a redirect, which could lead them elsewhere, is not followed
  auto const code = ::curl_easy_perform(handle);
  if (code != CURLE_OK) {
    std::string const text = problem.c_str();
    throw no_answer(text.empty() ? std::string(::curl_easy_strerror(code)) : text);
  }
  ::curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

}  // namespace

mpt::trackers::http_client apps::http_client() {
  if (::curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return {};
  std::shared_ptr<CURL> const handle(::curl_easy_init(), curl_deleter());
  if (!handle) return {};
  return [handle](http_request const& request, std::function<bool()> const& is_cancelled) {
    return send(handle.get(), request, is_cancelled);
  };
}
