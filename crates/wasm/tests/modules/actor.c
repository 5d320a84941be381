/* Acts out the scene that its first argument names: reads a request, writes a response. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((import_module("provost"), import_name("kv_set")))
int provost_kv_set(const char *key, int key_size, const char *value, int value_size);

static char request[65536], chunk[65536];

static void fail(const char *code, const char *reason, const char *retryable) {
    printf("{\"contract_version\":\"v1\",\"status\":\"error\",\"error\":{\"code\":\"%s\",\"reason\":\"%s\",\"retryable\":%s,"
           "\"message\":\"as the scene says\"}}\n", code, reason, retryable);
    exit(0);
}

int main(int count, char **args) {
    const char *scene = count > 1 ? args[1] : "Echo";
    size_t size = fread(request, 1, sizeof request - 1, stdin);
    provost_kv_set("seen", 4, request, (int)size);
    const char *attempt = strstr(request, "\"attempt\":");
    int number = attempt ? atoi(attempt + strlen("\"attempt\":")) : 1;
    if (!strcmp(scene, "Hang")) for (volatile unsigned turns = 0;; turns++) {}
    if (!strcmp(scene, "Flaky") && number < 3) fail("execution_failed", "tool_backend_failure", "true");
    if (!strcmp(scene, "Broken")) fail("execution_failed", "tool_backend_failure", "false");
    if (!strcmp(scene, "Unauthorised")) fail("auth_invalid", "tool_auth_invalid", "false");
    if (!strcmp(scene, "Forbidden")) fail("auth_forbidden", "tool_auth_forbidden", "false");
    if (!strcmp(scene, "Garbage")) { puts("no json"); return 0; }
    if (!strcmp(scene, "Endless")) for (;;) fwrite(chunk, 1, sizeof chunk, stdout);
    const char *id = strcmp(scene, "WrongId") ? "" : "\"request_id\":\"another\",";
    const char *text = strstr(request, "\\\"text\\\":\\\"");
    text = text ? text + strlen("\\\"text\\\":\\\"") : "\\";
    printf("{\"contract_version\":\"v1\",%s\"status\":\"ok\",\"output\":\"%.*s\"}\n", id, (int)strcspn(text, "\\"), text);
    return 0;
}
