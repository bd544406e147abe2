/*
 * Uploads what a client sends to a socket: upload_from_socket STORE KEY
 *
 * The client sends the size of the object in eight bytes, the highest first, and then its bytes. The size is what tells an
 * object from the beginning of one: a client that goes away early leaves no object.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidegate.h>

static int failed(tg_error *error) {
    if (error == NULL) return 0;
    fprintf(stderr, "%s\n", tg_error_message(error));
    tg_error_free(error);
    return 1;
}

/* Listens on a free port, says which, and waits for one client. */
static int client(void) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), connection;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("socket");
        exit(1);
    }
    printf("listening on 127.0.0.1 port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    connection = accept(listener, NULL, NULL);
    close(listener);
    if (connection < 0) {
        perror("accept");
        exit(1);
    }
    return connection;
}

int main(int count, char **arguments) {
    static char buffer[64 << 10];
    unsigned char header[8];
    tg_engine *engine = NULL;
    tg_store *store = NULL;
    tg_options *options = tg_options_new();
    tg_writer *writer = NULL;
    tg_str key;
    uint64_t size = 0;
    char text[32];
    int connection, status = 1;
    size_t i;
    ssize_t received;
    if (count != 3) {
        fprintf(stderr, "usage: upload_from_socket STORE KEY\n");
        return 2;
    }
    key.data = arguments[2], key.length = strlen(arguments[2]);
    connection = client();
    if (recv(connection, header, sizeof header, MSG_WAITALL) != (ssize_t)sizeof header) {
        fprintf(stderr, "the client sent no size\n");
        return 1;
    }
    for (i = 0; i < sizeof header; i++) size = size << 8 | header[i];
    sprintf(text, "%llu", (unsigned long long)size);

    if (failed(tg_options_set(options, "exact_size", text)) || failed(tg_engine_new(NULL, &engine)) ||
        failed(tg_store_open(engine, arguments[1], NULL, &store)) ||
        failed(tg_writer_open(store, key, options, &writer))) {
        goto end;
    }
    while ((received = recv(connection, buffer, sizeof buffer, 0)) > 0) {
        if (failed(tg_writer_write(writer, buffer, (size_t)received))) goto end;
    }
    if (received < 0) {
        perror("recv");
        goto end;
    }
    /* Fails if fewer bytes came than the client promised. */
    if (!failed(tg_writer_finish(writer, NULL))) status = 0;

end:
    /* Whatever was not finished is discarded. */
    tg_writer_free(writer);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
    close(connection);
    return status;
}
