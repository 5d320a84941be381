/* A tool: reads a request from its standard input, writes a response to its standard output. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(void) {
    size_t size = 0, room = 65536;
    char *text = malloc(room);
    while (text) {
        size += fread(text + size, 1, room - size - 1, stdin);
        if (feof(stdin) || ferror(stdin)) break;
        if (size + 1 >= room) text = realloc(text, room *= 2);
    }
    if (text) text[size] = 0;
    return text;
}

/* A text of a JSON object, or NULL. Use a library as soon as you need more. */
static char *field(const char *json, const char *name) {
    char mark[64];
    snprintf(mark, sizeof mark, "\"%s\":\"", name);
    const char *at = json ? strstr(json, mark) : NULL;
    if (!at) return NULL;
    char *text = malloc(strlen(at) + 1), *end = text;
    for (at += strlen(mark); text && *at && *at != '"'; at++) {
        if (*at != '\\') { *end++ = *at; continue; }
        at++;
        *end++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'r' ? '\r' : *at;
    }
    if (text) *end = 0;
    return text;
}

int main(void) {
    /* `input` of the request is the arguments, as JSON in a text. */
    const char *text = field(field(read_all(), "input"), "text");
    if (!text) {
        puts("{\"contract_version\":\"v1\",\"status\":\"error\",\"error\":{\"code\":\"invalid_input\","
             "\"reason\":\"tool_invalid_input\",\"retryable\":false,\"message\":\"`text` is missing\"}}");
        return 0;
    }
    int words = 0, inside = 0;
    for (; *text; text++) {
        int is_word = !isspace((unsigned char)*text);
        words += is_word && !inside;
        inside = is_word;
    }
    printf("{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"%d\"}\n", words);
    return 0;
}
