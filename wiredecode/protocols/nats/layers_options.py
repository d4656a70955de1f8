"""The members of INFO and CONNECT.

Source: ``Info``, ``connectInfo`` and ``leafConnectInfo`` of nats-server, and the clients' own structures.
"""

from __future__ import annotations

from wiredecode.fields.jsonfields import JsonObject, Member, members, renamed

BOOL, INT, STRING, LIST, OBJECT = "bool", "int64", "string", "list<string>", "struct"


@renamed
class InfoOptions(JsonObject):
    """A server's facts about itself. Missing booleans are false, missing strings empty."""

    filter_name = "nats.options"
    fields_desc = members(
        Member("server_id", STRING, "key of the server; empty in INFO that carries a command"),
        Member("server_name", STRING, "display name"),
        Member("version", STRING, "version of the server"),
        Member("proto", INT, "protocol level"),
        Member("git_commit", STRING, "build"),
        Member("go", STRING, "version of Go"),
        Member("host", STRING, "advertised address"),
        Member("port", INT, "advertised port"),
        Member("headers", BOOL, "HPUB and HMSG are supported"),
        Member("auth_required", BOOL, "CONNECT must carry credentials"),
        Member("tls_required", BOOL, "the next bytes of the dialing side must be TLS"),
        Member("tls_verify", BOOL, "client certificates are checked"),
        Member("tls_available", BOOL, "TLS may follow"),
        Member("max_payload", INT, "largest payload taken from clients", unit="bytes"),
        Member("jetstream", BOOL, "JetStream is enabled"),
        Member("domain", STRING, "JetStream domain"),
        Member("api_lvl", INT, "JetStream API level"),
        Member("ip", STRING, "address as the server sees it"),
        Member("client_id", INT, "number of this connection"),
        Member("client_ip", STRING, "address of the client"),
        Member("nonce", STRING, "what clients with keys sign"),
        Member("cluster", STRING, "name of the cluster"),
        Member("cluster_dynamic", BOOL, "the name was made up"),
        Member("connect_urls", LIST, "servers of the cluster"),
        Member("ws_connect_urls", LIST, "their WebSocket addresses"),
        Member("leafnode_urls", LIST, "where leaf nodes can connect"),
        Member("ldm", BOOL, "lame duck mode: the server will close soon"),
        Member("connect_info", BOOL, "answers the first PING with another INFO"),
        Member("remote_account", STRING, "account of the connection"),
        Member("acc_is_sys", BOOL, "that account is the system's"),
        Member("xkey", STRING, "public curve key"),
        Member("compression", STRING, "compression mode of a server link"),
        Member("import_", OBJECT, "route permissions"),
        Member("export", OBJECT, "route permissions"),
        Member("lnoc", BOOL, "LMSG and LS+ carry the origin cluster"),
        Member("lnocu", BOOL, "LS- carries it too"),
        Member("ln", BOOL, "leaf node feature of routes"),
        Member("info_on_connect", BOOL, "answers CONNECT with INFO"),
        Member("connect_only", BOOL, "only CONNECT is awaited"),
        Member("route_pool_size", INT, "connections of a route"),
        Member("route_pool_idx", INT, "which of them this is"),
        Member("route_account", STRING, "the one account of this route: lines carry no account"),
        Member("route_acc_add_reqid", STRING, "request for a route of one account"),
        Member("gossip_mode", INT, "which other servers are announced"),
        Member("gateway", STRING, "cluster of the gateway"),
        Member("gateway_urls", LIST, "gateways of the cluster"),
        Member("gateway_url", STRING, "gateway of this server"),
        Member("gateway_cmd", INT, "1 gossip, 2 all subscriptions start, 3 all subscriptions complete"),
        Member("gateway_cmd_payload", STRING, "what the command is about: an account name, base64"),
        Member("gateway_nrp", BOOL, "new reply prefix _GR_."),
        Member("gateway_iom", BOOL, "interest-only mode"),
        Member("lame_duck_mode", BOOL, "lame duck mode"),
    )


@renamed
class ConnectOptions(JsonObject):
    """Options of the dialing side. Verbose, pedantic and echo are true when they are missing."""

    filter_name = "nats.options"
    hides_others = True
    fields_desc = members(
        Member("verbose", BOOL, "the server answers every operation with +OK"),
        Member("pedantic", BOOL, "the server checks subjects"),
        Member("jwt", STRING, "signed claims", secret=True),
        Member("nkey", STRING, "public key of the user", secret=True),
        Member("sig", STRING, "signed nonce", secret=True),
        Member("proxy_sig", STRING, "nonce signed by a proxy", secret=True),
        Member("user", STRING, "user name"),
        Member("pass_", STRING, "password", secret=True),
        Member("auth_token", STRING, "token", secret=True),
        Member("tls_required", BOOL, "the client wants TLS"),
        Member("name_", STRING, "display name; between servers the server id"),
        Member("lang", STRING, "language of the client; servers send none"),
        Member("version", STRING, "version of the client"),
        Member("protocol", INT, "1: INFO may come again; of leaf links the protocol level"),
        Member("echo", BOOL, "own messages come back"),
        Member("headers", BOOL, "HMSG is understood"),
        Member("no_responders", BOOL, "status 503 is wanted if a subject has no subscribers"),
        Member("account", STRING, "obsolete"),
        Member("new_account", BOOL, "obsolete"),
        Member("import_", OBJECT, "route permissions"),
        Member("export", OBJECT, "route permissions"),
        Member("cluster", STRING, "name of the cluster"),
        Member("cluster_dynamic", BOOL, "the name was made up"),
        Member("lnoc", BOOL, "LMSG and LS+ carry the origin cluster"),
        Member("lnocu", BOOL, "LS- carries it too"),
        Member("ln", BOOL, "leaf node feature of routes"),
        Member("gateway", STRING, "cluster of the gateway"),
        Member("server_id", STRING, "key of a leaf server"),
        Member("domain", STRING, "JetStream domain"),
        Member("is_hub", BOOL, "the dialing side is the hub"),
        Member("jetstream", BOOL, "JetStream is enabled"),
        Member("deny_pub", LIST, "subjects that the leaf does not publish"),
        Member("isolate", BOOL, "no interest of other leafs is wanted"),
        Member("compress_mode", STRING, "compression of the leaf link"),
        Member("remote_account", STRING, "account of the leaf"),
    )


LEAF_MARKS = ("server_id", "is_hub", "compress_mode")
"""Members that only leafs have in CONNECT."""
